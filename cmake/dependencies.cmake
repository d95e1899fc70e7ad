# Every external package, found once. All are Debian 12 packages (scripts/deps.sh lists them).
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)

# These come without a CMake configuration.
find_package(PkgConfig REQUIRED)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(libedit REQUIRED IMPORTED_TARGET libedit)
pkg_check_modules(httplib REQUIRED IMPORTED_TARGET cpp-httplib)

if(FATHOM_TESTS)
  find_package(GTest REQUIRED)
  # Oracles of the tokenizer's tests, which are skipped without them.
  pkg_check_modules(icu IMPORTED_TARGET icu-uc)
  pkg_check_modules(pcre2 IMPORTED_TARGET libpcre2-8)
endif()

if(FATHOM_BENCH)
  find_package(benchmark REQUIRED)
endif()
