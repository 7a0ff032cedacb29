# Unity builds: the source files of a target are compiled in groups, each group as if it were one file. Most of the time
# that a small C++ file takes goes into the headers that it includes, so a whole build is faster; in return, a change of
# one line compiles its whole group again. The preset `dev`, for daily work, has this off.
#
# unity_groups.py chooses the groups. They change with the sources, so a changed file makes ninja configure again.

set(ROTA_UNITY OFF CACHE STRING "Which source files are compiled in groups: OFF, ROOMS (the libraries) or ALL (tests too)")
set(ROTA_UNITY_MAX_LINES 4000)  # Of one group. More saves little and needs much memory.

# rota_unity(<target> [TEST] SOURCES <file>... [ALONE <file>...]): groups these C++ files of a target, except those named
# as ALONE.
function(rota_unity target)
  cmake_parse_arguments(arg "TEST" "" "SOURCES;ALONE" ${ARGN})
  if(NOT (ROTA_UNITY STREQUAL ALL OR (ROTA_UNITY STREQUAL ROOMS AND NOT arg_TEST)))
    return()
  endif()
  set(sources ${arg_SOURCES})
  list(FILTER sources INCLUDE REGEX "\\.cc$")
  foreach(file IN LISTS arg_ALONE)
    list(REMOVE_ITEM sources ${CMAKE_CURRENT_SOURCE_DIR}/${file})
  endforeach()
  list(LENGTH sources count)
  if(count LESS 2)
    return()
  endif()
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  set(script ${rota_SOURCE_DIR}/cmake/unity_groups.py)
  execute_process(COMMAND ${Python3_EXECUTABLE} -B ${script} ${ROTA_UNITY_MAX_LINES} ${sources}
    OUTPUT_VARIABLE lines COMMAND_ERROR_IS_FATAL ANY)
  string(STRIP "${lines}" lines)
  string(REPLACE "\n" ";" lines "${lines}")
  foreach(line IN LISTS lines)
    string(REGEX MATCH "^([0-9]+)\t(.*)$" unused "${line}")
    set_source_files_properties(${CMAKE_MATCH_2} PROPERTIES UNITY_GROUP ${target}_${CMAKE_MATCH_1})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${sources} ${script})
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # g++ treats a .cc in a group as a header, and would warn about each type with a member from an anonymous namespace.
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
  endif()
endfunction()
