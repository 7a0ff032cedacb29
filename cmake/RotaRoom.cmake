# One room, one library.
#
#   rota_room(<room> [DEPS <room>...] [NEEDS <library>...] [DEFINES <definition>...]
#             [INTERLEAVE_SOURCES <file>...] [ALONE <file>...] [INTERNAL])
#
# makes rota_<room> (alias rota::<room>) from src/<room>/*.cc, *.c and *.S. By its name a file goes elsewhere:
#   x_test.cc             all of a room's tests are one GoogleTest program, <room>_tests
#   x_interleave_test.cc  likewise, <room>_interleave_tests, built with ROTA_INTERLEAVE=1 and linked with the checker
#                         instead of our libraries; INTERLEAVE_SOURCES are compiled into it as well
#   x_test.c              a C program of its own, <room>_x_test; it passes by returning 0
#   x_bench.cc            all of them are one Google Benchmark program, <room>_bench
#   x_fuzz.cc             a libFuzzer program of its own, <room>_x_fuzz
# DEPS are other rooms and must be allowed by src/rooms.txt; NEEDS are libraries of cmake/RotaSystemLibs.cmake, not seen
# by users of the room. ALONE are files that a unity build must not compile together with others. An INTERNAL room is for tests: it is built only with them, and never installed.

# Reads src/rooms.txt: sets ROTA_ROOMS (in order) and ROTA_MAY_USE_<room> for the caller.
macro(rota_read_rooms)
  set(ROTA_ROOMS "")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${rota_SOURCE_DIR}/src/rooms.txt)
  file(STRINGS ${rota_SOURCE_DIR}/src/rooms.txt rota_lines REGEX "^[a-z]+:")
  foreach(line IN LISTS rota_lines)
    string(REGEX MATCH "^([a-z]+):(.*)$" unused "${line}")
    set(room ${CMAKE_MATCH_1})
    list(APPEND ROTA_ROOMS ${room})
    string(REGEX MATCHALL "[a-z]+" ROTA_MAY_USE_${room} "${CMAKE_MATCH_2}")
  endforeach()
endmacro()

macro(rota_add_rooms)
  rota_read_rooms()
  add_custom_target(rota_rooms)  # The libraries of all rooms.
  foreach(room IN LISTS ROTA_ROOMS)
    if(ROTA_ONLY_ROOMS AND NOT room IN_LIST ROTA_ONLY_ROOMS)
      continue()
    endif()
    # The glob is there so that a new room is noticed by the next build.
    file(GLOB rota_room_list CONFIGURE_DEPENDS ${rota_SOURCE_DIR}/src/${room}/CMakeLists.txt)
    if(rota_room_list)
      add_subdirectory(src/${room})
    endif()
  endforeach()
endmacro()

# rota_test_program(<target> ROOM <room> [GTEST | FUZZER] [ARGS ...]): registers a built program as a test, for ctest and
# for ./dev test. A GoogleTest program is counted by its cases, another is one test and passes by returning 0.
function(rota_test_program target)
  cmake_parse_arguments(arg "GTEST;FUZZER" "ROOM" "ARGS" ${ARGN})
  set(kind program)
  if(arg_GTEST)
    set(kind gtest)
  endif()
  if(NOT arg_FUZZER)
    add_test(NAME ${target} COMMAND ${target} ${arg_ARGS})
  endif()
  set(file $<TARGET_FILE:${target}>)
  if(CMAKE_CROSSCOMPILING_EMULATOR)
    # A script that runs the program in the emulator. -0 gives the program the script's name as its own, so that a test
    # that starts its program once more starts the script.
    list(JOIN CMAKE_CROSSCOMPILING_EMULATOR " " emulator)
    set(content "#!/bin/sh\nexec ${emulator} -0 \"$0\" '${file}' \"$@\"\n")
    set(file ${PROJECT_BINARY_DIR}/emulated/${target})
    file(GENERATE OUTPUT ${file} CONTENT "${content}" FILE_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
  endif()
  list(JOIN arg_ARGS "\t" arguments)
  set_property(GLOBAL APPEND_STRING PROPERTY ROTA_TEST_LIST
    "${kind}\t${arg_ROOM}\t${target}\t${file}\t${arguments}\n")
endfunction()

# Writes what ./dev test runs: one line a program, `kind room name file arguments`, with tabs between.
function(rota_write_test_list)
  get_property(list GLOBAL PROPERTY ROTA_TEST_LIST)
  file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/tests.list CONTENT "${list}")
  # Building this builds nothing, but lets ninja notice new files and rooms first: the list is then up to date.
  add_custom_target(tests_list)
endfunction()

# The headers that nearly every test includes are compiled once, for all test programs. A unity build has little use for it.
function(rota_precompile_test target)
  if(ROTA_UNITY)
    return()
  endif()
  if(NOT TARGET rota_test_headers)
    set(source ${rota_BINARY_DIR}/rota_test_headers.cc)
    file(CONFIGURE OUTPUT ${source} CONTENT "// Nothing: only the precompiled headers of this target are used.\n")
    add_library(rota_test_headers OBJECT ${source})
    rota_target(rota_test_headers TEST)
    # As rota::fiber demands. g++ takes this option from the precompiled headers, whatever the command line says.
    target_compile_options(rota_test_headers PRIVATE -fstack-clash-protection)
    target_link_libraries(rota_test_headers PRIVATE GTest::gmock)
    target_precompile_headers(rota_test_headers PRIVATE <gtest/gtest.h> <algorithm> <chrono> <functional> <memory>
      <optional> <string> <thread> <vector>)
  endif()
  target_precompile_headers(${target} REUSE_FROM rota_test_headers)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)  # For ccache.
  endif()
endfunction()

function(rota_room room)
  cmake_parse_arguments(arg "INTERNAL" "" "DEPS;NEEDS;DEFINES;INTERLEAVE_SOURCES;ALONE" ${ARGN})
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "rota_room(${room}): unknown argument ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(arg_INTERNAL AND NOT ROTA_BUILD_TESTS)
    return()
  endif()
  foreach(dep IN LISTS arg_DEPS)
    if(NOT dep IN_LIST ROTA_MAY_USE_${room})
      message(FATAL_ERROR "rota_room(${room}): may not depend on ${dep} (src/rooms.txt)")
    endif()
  endforeach()

  file(GLOB sources CONFIGURE_DEPENDS *.cc *.c *.S)
  foreach(kind IN ITEMS interleave_test test bench fuzz)
    set(${kind}_sources ${sources})
    list(FILTER ${kind}_sources INCLUDE REGEX "_${kind}\\.c+$")
    list(FILTER sources EXCLUDE REGEX "_${kind}\\.c+$")
  endforeach()
  set(c_test_sources ${test_sources})
  list(FILTER c_test_sources INCLUDE REGEX "\\.c$")
  list(FILTER test_sources INCLUDE REGEX "\\.cc$")

  if(NOT sources)  # A library needs something to archive.
    set(sources ${CMAKE_CURRENT_BINARY_DIR}/empty.cc)
    file(CONFIGURE OUTPUT ${sources} CONTENT "// The room ${room} has headers only.\n")
  endif()
  set(library rota_${room})
  add_library(${library} STATIC ${sources})
  add_library(rota::${room} ALIAS ${library})
  rota_target(${library})
  rota_unity(${library} SOURCES ${sources} ALONE ${arg_ALONE})
  rota_precompile_std(${library} SOURCES ${sources})
  add_dependencies(rota_rooms ${library})
  # Position-independent only if the user asks (CMAKE_POSITION_INDEPENDENT_CODE): -fPIC makes each access to a
  # thread_local slower, and the fiber runtime lives by them.
  set_target_properties(${library} PROPERTIES EXPORT_NAME ${room})
  target_include_directories(${library} PUBLIC
    $<BUILD_INTERFACE:${rota_SOURCE_DIR}/include> "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
  target_compile_definitions(${library} PUBLIC ${arg_DEFINES})
  foreach(dep IN LISTS arg_DEPS)
    target_link_libraries(${library} PUBLIC rota_${dep})
  endforeach()
  set(need_targets "")
  foreach(need IN LISTS arg_NEEDS)
    rota_need(${need})
    foreach(target IN LISTS ${need}_targets)
      if(target MATCHES :: AND NOT TARGET ${target})
        message(FATAL_ERROR "rota: the library '${need}' is missing; ./dev setup installs it")
      endif()
      list(APPEND need_targets ${target})
    endforeach()
  endforeach()
  target_link_libraries(${library} PRIVATE ${need_targets})
  if(NOT arg_INTERNAL)
    set_property(GLOBAL APPEND PROPERTY ROTA_INSTALLED_ROOMS ${room})
    set_property(GLOBAL PROPERTY ROTA_DEPS_${room} "${arg_DEPS}")
    set_property(GLOBAL PROPERTY ROTA_NEEDS_${room} "${arg_NEEDS}")
  endif()

  if(ROTA_BUILD_TESTS)
    file(GLOB_RECURSE headers CONFIGURE_DEPENDS *.h)
    rota_check_headers(${room}_headers ROOT ${rota_SOURCE_DIR}/src HEADERS ${headers} LINK ${library} ${need_targets})
    if(test_sources)
      add_executable(${room}_tests ${test_sources})
      rota_target(${room}_tests TEST)
      rota_unity(${room}_tests SOURCES ${test_sources} ALONE ${arg_ALONE})
      target_link_libraries(${room}_tests PRIVATE ${library} ${need_targets} GTest::gmock GTest::gtest_main rapidcheck)
      rota_precompile_test(${room}_tests)
      rota_test_program(${room}_tests ROOM ${room} GTEST)
    endif()
    if(interleave_test_sources AND NOT ROTA_SANITIZE)
      add_executable(${room}_interleave_tests ${interleave_test_sources} ${arg_INTERLEAVE_SOURCES})
      rota_target(${room}_interleave_tests TEST)
      rota_unity(${room}_interleave_tests SOURCES ${interleave_test_sources} ALONE ${arg_ALONE})
      target_compile_definitions(${room}_interleave_tests PRIVATE ROTA_INTERLEAVE=1)
      target_link_libraries(${room}_interleave_tests PRIVATE rota_interleave GTest::gmock GTest::gtest_main)
      rota_test_program(${room}_interleave_tests ROOM ${room} GTEST)
    endif()
    foreach(source IN LISTS c_test_sources)
      cmake_path(GET source STEM stem)
      add_executable(${room}_${stem} ${source})
      rota_target(${room}_${stem})
      target_link_libraries(${room}_${stem} PRIVATE ${library})
      set_target_properties(${room}_${stem} PROPERTIES LINKER_LANGUAGE CXX)
      rota_test_program(${room}_${stem} ROOM ${room})
    endforeach()
  endif()
  if(ROTA_BUILD_BENCH AND bench_sources)
    add_executable(${room}_bench ${bench_sources})
    rota_target(${room}_bench)
    target_link_libraries(${room}_bench PRIVATE ${library} ${need_targets} benchmark::benchmark_main)
  endif()
  if(ROTA_BUILD_FUZZ)
    foreach(source IN LISTS fuzz_sources)
      cmake_path(GET source STEM stem)
      add_executable(${room}_${stem} ${source})
      rota_target(${room}_${stem})
      target_link_options(${room}_${stem} PRIVATE -fsanitize=fuzzer)
      target_link_libraries(${room}_${stem} PRIVATE ${library} ${need_targets})
      rota_test_program(${room}_${stem} ROOM ${room} FUZZER ARGS -max_total_time=5 -seed=1)
    endforeach()
  endif()
endfunction()
