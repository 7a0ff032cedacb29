# The installed package: find_package(rota COMPONENTS fiber ...) with one target a room, and rota.pc for everyone else.
#
# Each room has its own export file, so that a component drags in only the libraries that it needs itself.

# Modules of cmake/ that are for users too.
set(ROTA_USER_MODULES RotaSystemLibs RotaMeter)

function(rota_install)
  include(CMakePackageConfigHelpers)
  set(where ${CMAKE_INSTALL_LIBDIR}/cmake/rota)
  get_property(rooms GLOBAL PROPERTY ROTA_INSTALLED_ROOMS)
  set(ROTA_COMPONENT_TABLE "set(_rota_rooms ${rooms})\n")
  set(pc_libs "")
  set(pc_needs "")
  foreach(room IN LISTS rooms)
    install(TARGETS rota_${room} EXPORT rota_${room} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
    install(EXPORT rota_${room} FILE rota-${room}.cmake NAMESPACE rota:: DESTINATION ${where})
    get_property(deps GLOBAL PROPERTY ROTA_DEPS_${room})
    get_property(needs GLOBAL PROPERTY ROTA_NEEDS_${room})
    string(APPEND ROTA_COMPONENT_TABLE "set(_rota_deps_${room} ${deps})\nset(_rota_needs_${room} ${needs})\n")
    list(PREPEND pc_libs -lrota_${room})
    list(APPEND pc_needs ${needs})
  endforeach()

  install(DIRECTORY ${rota_SOURCE_DIR}/include/rota DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
  foreach(module IN LISTS ROTA_USER_MODULES)
    if(EXISTS ${rota_SOURCE_DIR}/cmake/${module}.cmake)
      install(FILES ${rota_SOURCE_DIR}/cmake/${module}.cmake DESTINATION ${where})
    endif()
  endforeach()
  configure_package_config_file(${rota_SOURCE_DIR}/cmake/rotaConfig.cmake.in ${rota_BINARY_DIR}/rotaConfig.cmake
    INSTALL_DESTINATION ${where} NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
  # Before 1.0 a minor version may change the interface, so `rota 0.1` means 0.1.x; `rota 0` means any of them.
  configure_file(${rota_SOURCE_DIR}/cmake/rotaConfigVersion.cmake.in ${rota_BINARY_DIR}/rotaConfigVersion.cmake @ONLY)
  install(FILES ${rota_BINARY_DIR}/rotaConfig.cmake ${rota_BINARY_DIR}/rotaConfigVersion.cmake DESTINATION ${where})

  # The archives are static, so whoever links them needs the libraries below as well: all are in Libs.
  list(REMOVE_DUPLICATES pc_needs)
  foreach(need IN LISTS pc_needs)
    list(APPEND pc_libs ${ROTA_PC_${need}})
  endforeach()
  list(JOIN pc_libs " " ROTA_PC_LIBS)
  file(RELATIVE_PATH ROTA_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  string(REGEX REPLACE "/$" "" ROTA_PC_PREFIX ${ROTA_PC_PREFIX})
  configure_file(${rota_SOURCE_DIR}/cmake/rota.pc.in ${rota_BINARY_DIR}/rota.pc @ONLY)
  install(FILES ${rota_BINARY_DIR}/rota.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()
