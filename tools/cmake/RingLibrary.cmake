# The build is the module table: one ring_library() per folder, a ring_test() for each test program
# (most folders below tests/ have one, some several), one ring_fuzz() per fuzz target.

add_library(ring_options INTERFACE)
target_compile_options(ring_options INTERFACE -Wall -Wextra -Wpedantic -Wconversion -Wshadow
                       $<$<BOOL:${RING_STRICT}>:-Werror>)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  target_compile_options(ring_options INTERFACE -Wthread-safety)
endif()
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  add_compile_options(-march=${RING_MARCH})
endif()
if(RING_SANITIZE STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-omit-frame-pointer
                      -fno-sanitize-recover=all)
  add_link_options(-fsanitize=address,undefined)
elseif(RING_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread)
  add_link_options(-fsanitize=thread)
elseif(NOT RING_SANITIZE STREQUAL "")
  message(FATAL_ERROR "RING_SANITIZE=${RING_SANITIZE}: give address, thread or nothing")
endif()
if(RING_BUILD_FUZZ)
  # Every library is instrumented, or the fuzzer is blind in it.
  add_compile_options(-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
  add_link_options(-fsanitize=address,undefined)
endif()
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()

# ring_library(<name> HDRS ... SRCS ... DEPS ... PRIVATE_DEPS ... [PRECOMPILED <header>...])
# Defines ring_<name> with the alias Ring::<name>; DEPS are the folders that it may see.
# What is installed is decided in one place: tools/cmake/RingInstall.cmake.
function(ring_library name)
  cmake_parse_arguments(A "" "" "HDRS;SRCS;DEPS;PRIVATE_DEPS;PRECOMPILED" ${ARGN})
  add_library(ring_${name} ${A_SRCS})
  add_library(Ring::${name} ALIAS ring_${name})
  set_target_properties(ring_${name} PROPERTIES EXPORT_NAME ${name} LINKER_LANGUAGE CXX
                        POSITION_INDEPENDENT_CODE ON)
  target_sources(ring_${name} PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}
                 FILES ${A_HDRS})
  list(TRANSFORM A_HDRS PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ OUTPUT_VARIABLE headers)
  foreach(header IN LISTS headers)
    file(RELATIVE_PATH header ${PROJECT_SOURCE_DIR} ${header})
    set_property(GLOBAL APPEND PROPERTY RING_FILE_SET_HEADERS ${header})
  endforeach()
  target_link_libraries(ring_${name} PUBLIC ${A_DEPS}
                        PRIVATE ${A_PRIVATE_DEPS} $<BUILD_INTERFACE:ring_options>)
  target_compile_features(ring_${name} PUBLIC cxx_std_20)
  ring_precompile(ring_${name} library ${A_PRECOMPILED})
endfunction()

# Of simulations alone. A frame that returned is not looked for in them: it takes half of their time
# under AddressSanitizer (__asan_stack_malloc), and tests without a simulation look for it.
set(RING_SIM_ENVIRONMENT ASAN_OPTIONS=detect_stack_use_after_return=0)

# ring_test(<prefix> SRCS <file>_test.cc ... DEPS ... [LABEL unit] [TIMEOUT 120] [FORKS]
#           [PRECOMPILED <name of a ring_add_precompiled(), of tests>])
# One test program a prefix; tests are named <prefix>.<Suite>.<Rule>. One label only: CMake 3.25
# keeps the first. The label grpc keeps a test out of the ThreadSanitizer run. TIMEOUT, in seconds,
# is one test's; a program that runs as a whole has ten times that. Simulations never do: they are
# long enough to run side by side.
# FORKS: ThreadSanitizer wants a fork before any thread, so there each test has a process.
function(ring_test prefix)
  cmake_parse_arguments(A "FORKS" "LABEL;TIMEOUT;PRECOMPILED" "SRCS;DEPS" ${ARGN})
  if(NOT A_LABEL)
    set(A_LABEL unit)
  endif()
  if(NOT A_TIMEOUT)
    set(A_TIMEOUT 120)
  endif()
  if(NOT A_PRECOMPILED)
    set(A_PRECOMPILED test)
  endif()
  add_executable(${prefix}_test ${A_SRCS})
  target_include_directories(${prefix}_test PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${prefix}_test PRIVATE ${A_DEPS} GTest::gmock GTest::gtest_main
                        ring_options)
  ring_precompile(${prefix}_test ${A_PRECOMPILED})
  if(RING_MUTANTS)  # ring-sim --mutants runs it with a bug switch on
    target_sources(${prefix}_test PRIVATE $<TARGET_OBJECTS:ring_mutant_environment>)
  endif()
  if(RING_TEST_PROGRAMS AND NOT A_LABEL STREQUAL "sim" AND
     NOT (A_FORKS AND RING_SANITIZE STREQUAL "thread"))
    math(EXPR A_TIMEOUT "10 * ${A_TIMEOUT}")
    add_test(NAME ${prefix} COMMAND ${prefix}_test)
    set_tests_properties(${prefix} PROPERTIES LABELS ${A_LABEL} TIMEOUT ${A_TIMEOUT})
  else()
    set(environment)
    if(A_LABEL STREQUAL "sim")
      set(environment ENVIRONMENT ${RING_SIM_ENVIRONMENT})
    endif()
    gtest_discover_tests(${prefix}_test TEST_PREFIX ${prefix}. DISCOVERY_MODE PRE_TEST
                         PROPERTIES LABELS ${A_LABEL} TIMEOUT ${A_TIMEOUT} ${environment})
  endif()
endfunction()

# ring_fuzz(<name> SRCS <name>.cc ... DEPS ...)
# A libFuzzer program build/fuzz/tests/fuzz/<name>; its seeds are in tests/fuzz/corpus/<name>/. In
# other builds a test, fuzz.<name>, that runs the target over its seeds.
function(ring_fuzz name)
  cmake_parse_arguments(A "" "" "SRCS;DEPS" ${ARGN})
  set(program ${name})
  if(NOT RING_BUILD_FUZZ)
    set(program ${name}_replay)
  endif()
  add_executable(${program} ${A_SRCS})
  target_include_directories(${program} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${program} PRIVATE ${A_DEPS} ring_options)
  if(RING_BUILD_FUZZ)
    target_link_options(${program} PRIVATE -fsanitize=fuzzer)
  else()
    target_link_libraries(${program} PRIVATE ring_fuzz_replay)
    add_test(NAME fuzz.${name}
             COMMAND ${program} ${CMAKE_CURRENT_SOURCE_DIR}/corpus/${name})
    set_tests_properties(fuzz.${name} PROPERTIES LABELS unit TIMEOUT 60)
  endif()
endfunction()
