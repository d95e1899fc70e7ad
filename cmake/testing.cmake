# fathom_test(<name> LABELS <label>... SOURCES <file>... LIBS <target>...)
#
# One GoogleTest executable; ctest sees each of its tests under every label, and target tests_<label> builds all of a label.
# Labels: unit ops golden server gpu model slow.
# Tests find committed data under FATHOM_TEST_DATA_DIR and large external fixtures under FATHOM_SHARED_DIR (may be absent:
# GTEST_SKIP with the reason).
include(GoogleTest)

set(FATHOM_TEST_TOKENIZER "${PROJECT_SOURCE_DIR}/build/test-tokenizer/tokenizer.json" CACHE FILEPATH
    "DeepSeek-V3's tokenizer.json as scripts/fetch_test_tokenizer.sh stores it; tests that need it are skipped without it")

function(fathom_test name)
  if(NOT FATHOM_TESTS)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT" "LABELS;SOURCES;LIBS")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_LABELS OR NOT arg_SOURCES)
    message(FATAL_ERROR "fathom_test(${name}): needs LABELS, SOURCES and LIBS; unexpected: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  add_executable(${name} ${arg_SOURCES})
  # Test code is not hot, and a quarter of its compile time would go into optimising it.
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests")
  target_compile_definitions(${name} PRIVATE
    FATHOM_TEST_DATA_DIR="${PROJECT_SOURCE_DIR}/tests/data"
    FATHOM_SHARED_DIR="${FATHOM_SHARED_DIR}"
    FATHOM_TEST_TOKENIZER="${FATHOM_TEST_TOKENIZER}")
  target_link_libraries(${name} PRIVATE fathom_warnings ${arg_LIBS} GTest::gtest GTest::gtest_main GTest::gmock)
  foreach(label ${arg_LABELS})
    if(NOT TARGET tests_${label})
      add_custom_target(tests_${label})
    endif()
    add_dependencies(tests_${label} ${name})
  endforeach()

  # Listing the tests when ctest runs, not when the executable is linked, keeps the build free of test code.
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60 NO_PRETTY_VALUES
    PROPERTIES TIMEOUT ${arg_TIMEOUT})

  # Properties that are lists do not survive gtest_discover_tests, so ctest reads them from a file after its own. An
  # allocation that is too large must fail under the sanitizers as it does without them.
  set(properties "${CMAKE_CURRENT_BINARY_DIR}/${name}_properties.cmake")
  file(CONFIGURE OUTPUT "${properties}" @ONLY CONTENT [[
if(NOT DEFINED @name@_TESTS)
  set(@name@_TESTS @name@_NOT_BUILT)  # fails under every label, rather than being left out
endif()
set_tests_properties(${@name@_TESTS} PROPERTIES
  LABELS "@arg_LABELS@"
  ENVIRONMENT "ASAN_OPTIONS=allocator_may_return_null=1;TSAN_OPTIONS=allocator_may_return_null=1")
]])
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${properties}")
endfunction()

# fathom_fuzz(<name> SOURCES <file>... LIBS <target>...)
#
# A libFuzzer target fuzz_<name> (preset `asan`, collected in <build>/fuzzers). Other builds make it a plain program that
# replays the committed inputs in tests/fuzz/corpus/<name>: every input that once failed stays a regression test.
function(fathom_fuzz name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBS")
  set(target fuzz_${name})
  set(corpus "${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${name}")
  add_executable(${target} ${arg_SOURCES})
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/tests")
  target_link_libraries(${target} PRIVATE fathom_warnings ${arg_LIBS})
  if(FATHOM_FUZZ)
    target_link_options(${target} PRIVATE -fsanitize=fuzzer)
    set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/fuzzers")
    add_dependencies(fuzzers ${target})
  elseif(EXISTS "${corpus}")
    target_sources(${target} PRIVATE "${PROJECT_SOURCE_DIR}/tests/fuzz/replay_main.cpp")
    add_test(NAME FuzzCorpus.${name} COMMAND ${target} "${corpus}")
    set_tests_properties(FuzzCorpus.${name} PROPERTIES LABELS unit TIMEOUT 120)
    add_dependencies(tests_unit ${target})
  else()
    message(FATAL_ERROR "fathom_fuzz(${name}): add at least one input to tests/fuzz/corpus/${name}")
  endif()
endfunction()
