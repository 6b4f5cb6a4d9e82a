# Headers of others that most files include are parsed once for each kind of code, not once a file:
# a third of the time of a build. None of our own is among them: what changes is not precompiled.
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
  if(kind MATCHES "^(command|test)$")
    target_compile_options(${target} PRIVATE
                           $<$<OR:$<CONFIG:Debug>,$<BOOL:${RING_MUTANTS}>>:-O0>)
  endif()
endfunction()

# ring_precompiled_<kind>: what a target of that kind reuses. The code of a library is independent
# of its position, that of a program and of what programs alone link is not; a command reads a
# command line and prints JSON, a test has gtest. What a file does not use costs it time all the
# same: its templates are instantiated.
function(ring_add_precompiled kind)
  set(source ${PROJECT_BINARY_DIR}/precompiled/${kind}.cc)
  file(CONFIGURE OUTPUT ${source} CONTENT "// Only there to own a precompiled header.\n" @ONLY)
  add_library(ring_precompiled_${kind} OBJECT ${source})
  target_precompile_headers(ring_precompiled_${kind} PRIVATE ${RING_PRECOMPILED} ${ARGN})
  target_link_libraries(ring_precompiled_${kind} PRIVATE absl::statusor ring_options)
  ring_compile_fast(ring_precompiled_${kind} ${kind})
endfunction()

# ring_precompile(<target> <kind>): of a target whose files are compiled as that kind is.
function(ring_precompile target kind)
  ring_compile_fast(${target} ${kind})
  if(RING_PRECOMPILE)
    target_precompile_headers(${target} REUSE_FROM ring_precompiled_${kind})
  endif()
endfunction()

if(RING_PRECOMPILE)
  # What links gRPC is compiled with it, and a precompiled header fits only where all are.
  add_compile_options(-pthread)
  ring_add_precompiled(library)
  set_target_properties(ring_precompiled_library PROPERTIES POSITION_INDEPENDENT_CODE ON)
  ring_add_precompiled(program)
  ring_add_precompiled(command <CLI/CLI.hpp> <nlohmann/json.hpp>)
  if(RING_BUILD_TESTS)
    ring_add_precompiled(test <gmock/gmock.h> <gtest/gtest.h>)
    target_link_libraries(ring_precompiled_test PRIVATE GTest::gmock GTest::gtest)
  endif()
  # gcc writes a precompiled header with other bytes each time, so ccache would find nothing again.
  unset(CMAKE_CXX_COMPILER_LAUNCHER)
endif()
