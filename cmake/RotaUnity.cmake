# Unity builds: the source files of a target are compiled in groups, each group as if it were one file. Most of the time
# that a small C++ file takes goes into the headers that it includes, so a whole build is faster; in return, a change of
# one line compiles its whole group again. The preset `dev`, for daily work, has this off.
#
# unity_groups.py chooses the groups. They change with the sources, so a changed file makes ninja configure again.
#
# The files of the groups are written here, not by CMake (UNITY_BUILD): CMake includes sources by their absolute path, which
# __FILE__ then repeats, so that no clone of the project could use what the compiler cache has from another one.

option(ROTA_UNITY "Compile source files in groups" OFF)
set(ROTA_UNITY_MAX_LINES 4000)  # Of one group. More saves little and needs much memory.

# rota_unity(<target> SOURCES <file>... [ALONE <file>...]): groups these C++ files of a target, except those named as ALONE.
function(rota_unity target)
  cmake_parse_arguments(arg "" "" "SOURCES;ALONE" ${ARGN})
  if(NOT ROTA_UNITY)
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
  # The system's own one if it is there: a `python3` of a version manager may need half a second for each start.
  if(NOT Python3_EXECUTABLE AND EXISTS /usr/bin/python3)
    set(Python3_EXECUTABLE /usr/bin/python3)
  endif()
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  set(script ${rota_SOURCE_DIR}/cmake/unity_groups.py)
  execute_process(COMMAND ${Python3_EXECUTABLE} -B ${script} ${ROTA_UNITY_MAX_LINES} ${sources}
    OUTPUT_VARIABLE lines COMMAND_ERROR_IS_FATAL ANY)
  string(STRIP "${lines}" lines)
  string(REPLACE "\n" ";" lines "${lines}")
  get_target_property(left ${target} SOURCES)
  set(numbers "")
  foreach(line IN LISTS lines)
    string(REGEX MATCH "^([0-9]+)\t(.*)$" unused "${line}")
    set(number ${CMAKE_MATCH_1})
    set(source ${CMAKE_MATCH_2})
    file(RELATIVE_PATH path ${CMAKE_CURRENT_BINARY_DIR}/unity ${source})
    string(APPEND content_${number} "#include \"${path}\"\n")
    list(APPEND numbers ${number})
    list(REMOVE_ITEM left ${source})
  endforeach()
  list(REMOVE_DUPLICATES numbers)
  foreach(number IN LISTS numbers)
    set(group ${CMAKE_CURRENT_BINARY_DIR}/unity/${target}_${number}.cc)
    file(CONFIGURE OUTPUT ${group} CONTENT "${content_${number}}" @ONLY)
    list(APPEND left ${group})
  endforeach()
  set_target_properties(${target} PROPERTIES SOURCES "${left}")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${sources} ${script})
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # g++ treats a .cc in a group as a header, and would warn about each type with a member from an anonymous namespace.
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
  endif()
endfunction()
