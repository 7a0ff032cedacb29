# Libraries of the system that bring no CMake package of their own. Included by our build and, installed, by
# rotaConfig.cmake, so that both see the same targets.

# rota_system_library(<name> <header> <library>): makes the imported target rota::<name>, or leaves it undefined when the
# library is not there.
function(rota_system_library name header library)
  if(TARGET rota::${name})
    return()
  endif()
  find_path(ROTA_${name}_INCLUDE_DIR ${header})
  find_library(ROTA_${name}_LIBRARY ${library})
  mark_as_advanced(ROTA_${name}_INCLUDE_DIR ROTA_${name}_LIBRARY)
  if(ROTA_${name}_INCLUDE_DIR AND ROTA_${name}_LIBRARY)
    add_library(rota::${name} UNKNOWN IMPORTED GLOBAL)
    set_target_properties(rota::${name} PROPERTIES
      IMPORTED_LOCATION ${ROTA_${name}_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${ROTA_${name}_INCLUDE_DIR})
  endif()
endfunction()

# What a room may name in NEEDS, and how pkg-config's users link it.
set(ROTA_PC_threads -pthread)
set(ROTA_PC_xxhash -lxxhash)
set(ROTA_PC_yaml -lyaml)
set(ROTA_PC_boost_context -lboost_context)
set(ROTA_PC_dl -ldl)
set(ROTA_PC_sqlite -lsqlite3)
set(ROTA_PC_simdjson -lsimdjson)

# rota_need(<library> [QUIET]): finds one library that a room names in NEEDS and sets <library>_targets for the caller.
macro(rota_need library)
  if("${library}" STREQUAL threads)
    find_package(Threads ${ARGN})
    set(${library}_targets Threads::Threads)
  elseif("${library}" STREQUAL xxhash)
    rota_system_library(xxhash xxhash.h xxhash)
    set(${library}_targets rota::xxhash)
  elseif("${library}" STREQUAL yaml)
    rota_system_library(yaml yaml.h yaml)
    set(${library}_targets rota::yaml)
  elseif("${library}" STREQUAL boost_context)
    rota_system_library(boost_context boost/context/detail/fcontext.hpp boost_context)
    set(${library}_targets rota::boost_context)
  elseif("${library}" STREQUAL sqlite)
    rota_system_library(sqlite sqlite3.h sqlite3)
    set(${library}_targets rota::sqlite)
  elseif("${library}" STREQUAL simdjson)
    rota_system_library(simdjson simdjson.h simdjson)
    set(${library}_targets rota::simdjson)
  elseif("${library}" STREQUAL dl)
    set(${library}_targets ${CMAKE_DL_LIBS})
  else()
    message(FATAL_ERROR "rota: no such library in RotaSystemLibs.cmake: ${library}")
  endif()
endmacro()
