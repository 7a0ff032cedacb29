# Metering by the compiler (docs/metering.md). Included by our build and, installed, by rotaConfig.cmake.
#
#   rota_meter(<target>)       the compiler inserts a tick into every basic block of the target's C and C++ code, and its
#                              allocations are charged. A program or library that is linked with rota::fiber, or a MODULE
#                              for a program below.
#   rota_meter_host(<target>)  a program that loads metered modules with dlopen(): they use its runtime.
#
# In a MODULE the runtime is the host's: do not link rota::fiber there; its headers are found nevertheless.

# g++ inserts a call into every basic block. clang leaves out those that it can conclude from others, among them the
# bodies of loops, unless it is told not to.
set(ROTA_METER_GNU -fsanitize-coverage=trace-pc)
set(ROTA_METER_CLANG -fsanitize-coverage=edge,no-prune,trace-pc)

# The runtime comes first on the command line, whole. An inline function or a template of which both the runtime and
# metered code have a copy is linked once, the first: the runtime's own, without ticks, which must not appear under its
# locks.
set(ROTA_METER_RUNTIME_FIRST
  "LINKER:--whole-archive,$<TARGET_FILE:rota::fiber>,$<TARGET_FILE:rota::base>,--no-whole-archive")

function(rota_meter target)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    set(options ${ROTA_METER_GNU})
  elseif(CMAKE_CXX_COMPILER_ID MATCHES Clang)
    set(options ${ROTA_METER_CLANG})
  else()
    message(FATAL_ERROR "rota_meter(${target}): known are g++ and clang, not ${CMAKE_CXX_COMPILER_ID}")
  endif()
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:C,CXX>:${options}>")
  target_compile_definitions(${target} PRIVATE ROTA_METERED=1)
  # Allocations are charged; see the file.
  target_compile_options(${target} PRIVATE
    "$<$<COMPILE_LANGUAGE:C,CXX>:SHELL:-include rota/fiber/detail/metered_memory.h>")
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # The pass behind these warnings crashes on allocation functions with another name (g++ 12, pass waccess).
    target_compile_options(${target} PRIVATE
      "$<$<COMPILE_LANGUAGE:C,CXX>:-Wno-free-nonheap-object;-Wno-mismatched-dealloc>"
      $<$<COMPILE_LANGUAGE:CXX>:-Wno-mismatched-new-delete>)
  endif()
  get_target_property(type ${target} TYPE)
  if(type STREQUAL EXECUTABLE)
    target_link_options(${target} PRIVATE ${ROTA_METER_RUNTIME_FIRST})
    target_link_libraries(${target} PRIVATE rota::fiber)
  elseif(type STREQUAL STATIC_LIBRARY OR type STREQUAL OBJECT_LIBRARY)
    target_link_options(${target} INTERFACE ${ROTA_METER_RUNTIME_FIRST})
    target_link_libraries(${target} PUBLIC rota::fiber)
  elseif(type STREQUAL MODULE_LIBRARY)
    target_include_directories(${target} PRIVATE $<TARGET_PROPERTY:rota::fiber,INTERFACE_INCLUDE_DIRECTORIES>)
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:C,CXX>:-fstack-clash-protection>")
    target_compile_features(${target} PRIVATE cxx_std_20)
    target_link_options(${target} PRIVATE
      LINKER:--wrap=__cxa_guard_acquire,--wrap=__cxa_guard_release,--wrap=__cxa_guard_abort)
  else()
    message(FATAL_ERROR "rota_meter(${target}): a program, a static library or a MODULE, not a ${type}")
  endif()
endfunction()

function(rota_meter_host target)
  set_target_properties(${target} PROPERTIES ENABLE_EXPORTS ON)
  target_link_options(${target} PRIVATE ${ROTA_METER_RUNTIME_FIRST})
  target_link_libraries(${target} PRIVATE rota::fiber)
endfunction()
