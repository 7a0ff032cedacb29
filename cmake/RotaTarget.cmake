# What every target of ours is built with: language level, warnings, sanitizers, linker. All of it is set on the target,
# so that a project that adds Rota as a subdirectory keeps its own flags.

# ccache, for our own builds only. A plain variable: it ends with this project's folder.
if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(ROTA_CCACHE ccache)
  if(ROTA_CCACHE)
    set(CMAKE_C_COMPILER_LAUNCHER ${ROTA_CCACHE})
    set(CMAKE_CXX_COMPILER_LAUNCHER ${ROTA_CCACHE})
  endif()
endif()

# The fastest linker there is. mold and lld link the tests in a fraction of the default linker's time. A cross compiler of
# Debian does not find them.
if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_CROSSCOMPILING)
  find_program(ROTA_MOLD mold)
  find_program(ROTA_LLD ld.lld)
endif()
set(ROTA_LINKER_FLAG "")
if(ROTA_MOLD)
  set(ROTA_LINKER_FLAG -fuse-ld=mold)
elseif(ROTA_LLD)
  set(ROTA_LINKER_FLAG -fuse-ld=lld)
endif()

set(ROTA_WARNINGS -Wall -Wextra -Wshadow -Wconversion -Wundef)
set(ROTA_WARNINGS_CXX -Wnon-virtual-dtor -Woverloaded-virtual -Wextra-semi)

# rota_target(<target> [PUBLIC_ONLY]): applies all of the above to a target of ours and lets it include room headers
# ("base/x.h"); with PUBLIC_ONLY it sees what a user sees. With TEST it is built faster: hardly optimised in a release, with
# lines in the debug information but no variables otherwise.
function(rota_target target)
  cmake_parse_arguments(arg "PUBLIC_ONLY;TEST" "" "" ${ARGN})
  target_compile_features(${target} PUBLIC cxx_std_20)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF C_STANDARD 11 C_EXTENSIONS OFF)
  target_include_directories(${target} PRIVATE ${rota_SOURCE_DIR}/include)
  if(NOT arg_PUBLIC_ONLY)
    target_include_directories(${target} PRIVATE ${rota_SOURCE_DIR}/src)
  endif()
  set(cxx $<COMPILE_LANGUAGE:CXX>)
  set(c_or_cxx $<COMPILE_LANGUAGE:C,CXX>)
  if(ROTA_WERROR)
    target_compile_options(${target} PRIVATE "$<${c_or_cxx}:${ROTA_WARNINGS};-Werror>" "$<${cxx}:${ROTA_WARNINGS_CXX}>")
    if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
      # g++ leaves this out of -Wconversion in C++; both compilers shall ask for the same.
      target_compile_options(${target} PRIVATE "$<${cxx}:-Wno-sign-conversion;-Wthread-safety>")
      # clang's -Wshadow also reports parameters named like a variable that the lambda does not capture. g++ checks the rest.
      target_compile_options(${target} PRIVATE "$<${cxx}:-Wno-shadow>")
      # clang 19 warns inside of std::stable_sort of libstdc++ 12. g++ reports our own uses of what is deprecated.
      target_compile_options(${target} PRIVATE "$<${cxx}:-Wno-deprecated-declarations>")
    endif()
    if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
      # At -O3 g++ 12 sees overlapping copies in `"text" + std::string` (its bug 105651, mended in 13).
      target_compile_options(${target} PRIVATE $<${cxx}:-Wno-restrict>)
      if(ROTA_UNITY)
        # More inlining across files lets g++ 12 see uninitialised members in a Result that holds an error. The dev preset,
        # which compiles each file by itself, is strict.
        target_compile_options(${target} PRIVATE $<${cxx}:-Wno-maybe-uninitialized>)
      endif()
    endif()
  endif()
  if(ROTA_SANITIZE)
    set(sanitize -fsanitize=${ROTA_SANITIZE} -fno-omit-frame-pointer)
    if(ROTA_SANITIZE MATCHES undefined)
      list(APPEND sanitize -fno-sanitize-recover=undefined)
    endif()
    if(CMAKE_CXX_COMPILER_ID MATCHES Clang AND ROTA_SANITIZE MATCHES address)
      target_compile_definitions(${target} PRIVATE __SANITIZE_ADDRESS__=1)  # g++ defines this by itself.
    endif()
    if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
      # g++ 12 sees uninitialised values in instrumented code of its own library; builds without sanitizers are strict.
      list(APPEND sanitize -Wno-maybe-uninitialized)
    endif()
    if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND ROTA_SANITIZE MATCHES thread)
      # A fence is still a fence under ThreadSanitizer; it only derives no order from one. Code whose order needs the
      # fence would show up as a race, so the warning adds nothing.
      list(APPEND sanitize -Wno-tsan)
    endif()
    target_compile_options(${target} PRIVATE ${sanitize})
    target_link_options(${target} PRIVATE ${sanitize})
  endif()
  if(ROTA_COVERAGE)
    target_compile_options(${target} PRIVATE --coverage -fprofile-update=atomic)
    target_link_options(${target} PRIVATE --coverage)
  endif()
  if(arg_TEST)
    # Where much of the code under test is in headers, it is optimised: a fiber that changes threads meets other code then.
    set(level -O0)
    if(target MATCHES "^(base|interleave|fiber|graph|flow|fleet)_")
      set(level -O1)
    endif()
    target_compile_options(${target} PRIVATE $<$<CONFIG:RelWithDebInfo>:-g1> $<$<CONFIG:Release>:${level}>)
  endif()
  get_target_property(type ${target} TYPE)
  if(type STREQUAL EXECUTABLE)
    # All symbols are bound at start: a lazy binding on a small fiber stack would need room for the resolver.
    target_link_options(${target} PRIVATE ${ROTA_LINKER_FLAG} -Wl,-z,now)
  endif()
endfunction()

option(ROTA_PRECOMPILE_STD "Compile the headers of the standard library once, for all rooms (preset clang)" OFF)

# rota_precompile_std(<target> SOURCES <file>...): with ROTA_PRECOMPILE_STD the C++ files of a target of ours get the common
# headers of the standard library precompiled. It halves the time of a file that is compiled by itself; such a build does
# not notice a missing include of the standard library (the preset `dev` does), only one of ours.
function(rota_precompile_std target)
  cmake_parse_arguments(arg "" "" "SOURCES" ${ARGN})
  if(NOT ROTA_PRECOMPILE_STD)
    return()
  endif()
  if(NOT TARGET rota_std_headers)
    set(source ${rota_BINARY_DIR}/rota_std_headers.cc)
    file(CONFIGURE OUTPUT ${source} CONTENT "// Nothing: only the precompiled headers of this target are used.\n")
    add_library(rota_std_headers OBJECT EXCLUDE_FROM_ALL ${source})
    rota_target(rota_std_headers)
    target_precompile_headers(rota_std_headers PRIVATE <algorithm> <array> <atomic> <bit> <charconv> <chrono> <condition_variable>
      <cstdint> <cstdio> <cstdlib> <cstring> <deque> <functional> <limits> <map> <memory> <mutex> <new> <numeric>
      <optional> <set> <span> <sstream> <stdexcept> <string> <string_view> <system_error> <thread> <tuple> <type_traits>
      <unordered_map> <utility> <variant> <vector>)
  endif()
  target_precompile_headers(${target} REUSE_FROM rota_std_headers)
  set(others ${arg_SOURCES})
  list(FILTER others EXCLUDE REGEX "\\.cc$")
  set_source_files_properties(${others} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
endfunction()

# rota_source_dir(<target>): defines rota::kSourceDir of base/source_dir.h in a test program.
function(rota_source_dir target)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${target}_source_dir.cc)
  file(CONFIGURE OUTPUT ${source} @ONLY CONTENT
    "#include \"base/source_dir.h\"\n\nconst char rota::kSourceDir[] = \"@rota_SOURCE_DIR@\";\n")
  target_sources(${target} PRIVATE ${source})
endfunction()
