# Headers of others that most files include are parsed once for each kind of code, not once a file:
# a third of the time of a build. Of our own only what most files of a target include anyway, and
# are compiled again for: half of the time of those.
#
# With gcc alone: clang's builds have every file include what it uses, or they fail. gcc forgets
# that these are headers of the system, so it may warn of what is in them where it is inlined: such
# a file does without (SKIP_PRECOMPILE_HEADERS), and so does the build for ThreadSanitizer.
set(precompile_default OFF)
if(PROJECT_IS_TOP_LEVEL AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(precompile_default ON)
endif()
option(RING_PRECOMPILE "Precompile headers of other projects" ${precompile_default})

set(RING_PRECOMPILED
    <algorithm> <array> <atomic> <bit> <chrono> <condition_variable> <cstddef> <cstdint> <cstring>
    <deque> <functional> <map> <memory> <mutex> <optional> <set> <string> <thread> <utility>
    <vector>
    <absl/container/flat_hash_map.h> <absl/functional/any_invocable.h>
    <absl/functional/function_ref.h> <absl/status/status.h> <absl/status/statusor.h>
    <absl/strings/str_cat.h> <absl/strings/str_format.h> <absl/strings/string_view.h>
    <absl/types/span.h>)

# The own code of a command or a test is compiled more often than it is run: where nothing is
# measured, without optimisation, which takes half the time. The libraries that it calls have it.
function(ring_compile_fast target kind)
  if(kind MATCHES "^(command|.*test)$")
    target_compile_options(${target} PRIVATE
                           $<$<OR:$<CONFIG:Debug>,$<BOOL:${RING_MUTANTS}>>:-O0>)
  endif()
endfunction()

# What a kind of target has beside those: a command reads a command line and prints JSON, a test has
# gtest. The code of a library is independent of its position, that of a program and of what
# programs alone link is not.
set(RING_PRECOMPILED_command <CLI/CLI.hpp> <nlohmann/json.hpp>)
set(RING_PRECOMPILED_test <gmock/gmock.h> <gtest/gtest.h>)

# ring_add_precompiled(<name> <kind> [<header>...] [DEPS ...]): ring_precompiled_<name>, for targets
# of that kind to share, with headers of ours, from the root, that nearly all of their files have.
# What a file does not use costs it time all the same: its templates are instantiated.
function(ring_add_precompiled name kind)
  if(NOT RING_PRECOMPILE)
    return()
  endif()
  cmake_parse_arguments(A "" "" "DEPS" ${ARGN})
  set(target ring_precompiled_${name})
  set(source ${PROJECT_BINARY_DIR}/precompiled/${name}.cc)
  file(CONFIGURE OUTPUT ${source} CONTENT "// Only there to own a precompiled header.\n" @ONLY)
  add_library(${target} OBJECT ${source})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${target} PRIVATE absl::statusor ring_options ${A_DEPS})
  if(kind STREQUAL "test")
    target_link_libraries(${target} PRIVATE GTest::gmock GTest::gtest)
  elseif(kind STREQUAL "library")
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  endif()
  list(TRANSFORM A_UNPARSED_ARGUMENTS PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE headers)
  target_precompile_headers(${target} PRIVATE ${RING_PRECOMPILED} ${RING_PRECOMPILED_${kind}}
                            ${headers})
  ring_compile_fast(${target} ${kind})
endfunction()

# ring_precompile(<target> <kind> [<header>...]): of a target whose files are compiled as that kind
# is. With headers of ours it has what it precompiles for itself; kind may be a name, else.
function(ring_precompile target kind)
  ring_compile_fast(${target} ${kind})
  if(NOT RING_PRECOMPILE)
    return()
  endif()
  if(ARGN)
    list(TRANSFORM ARGN PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE headers)
    target_precompile_headers(${target} PRIVATE ${RING_PRECOMPILED} ${RING_PRECOMPILED_${kind}}
                              ${headers})
  else()
    target_precompile_headers(${target} REUSE_FROM ring_precompiled_${kind})
  endif()
endfunction()

if(RING_PRECOMPILE)
  # What links gRPC is compiled with it, and a precompiled header fits only where all are.
  add_compile_options(-pthread)
  ring_add_precompiled(library library)
  ring_add_precompiled(program program)
  ring_add_precompiled(command command)
  if(RING_BUILD_TESTS)
    ring_add_precompiled(test test)
  endif()
  # gcc writes a precompiled header with other bytes each time, so ccache would find nothing again.
  unset(CMAKE_CXX_COMPILER_LAUNCHER)
endif()
