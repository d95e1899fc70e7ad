#!/usr/bin/env bash
# Builds everything with warnings as errors and runs the tests.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

usage() {
  cat <<'EOF'
usage: scripts/test.sh [--label REGEX] [--exclude REGEX] [--preset NAME]

Installs missing packages, builds the preset and runs its tests, then lists why tests were skipped.
  --label REGEX    only tests with a label that matches: unit ops golden server gpu model slow
  --exclude REGEX  no tests with a label that matches
  --preset NAME    a preset of CMakePresets.json with tests (default: ci)
EOF
}

preset=ci
target=all
select=()
while [ $# -gt 0 ]; do
  case "$1" in
    --help) usage; exit 0 ;;
    --label) select+=(-L "${2:?}"); [ "$2" = unit ] && target=tests_unit; shift 2 ;;
    --exclude) select+=(-LE "${2:?}"); shift 2 ;;
    --preset) preset=${2:?}; shift 2 ;;
    *) usage >&2; exit 2 ;;
  esac
done

# Why tests did not run: how many, and the text of GTEST_SKIP.
skip_reasons() {
  awk '/: Skipped$/ { skipped = 1; next }
       /\[  SKIPPED \]/ { skipped = 0 }
       skipped && NF { count[$0]++ }
       END { for (reason in count) printf "skipped %d: %s\n", count[reason], reason }' "$1" | sort
}

"$root/scripts/deps.sh"
"$root/scripts/fetch_test_tokenizer.sh" || say "the V4 vocabulary cannot be fetched: its tests will be skipped"
configure "$preset"
build=$root/build/$preset
say "building build/$preset ($target)"
cmake --build "$build" --target "$target"

say "running the tests of build/$preset"
status=0
ctest --test-dir "$build" --output-on-failure --no-tests=error -j "$jobs" "${select[@]}" 2>&1 |
  tee "$build/ctest.log" || status=$?
skip_reasons "$build/Testing/Temporary/LastTest.log"
grep -E 'tests passed, |^Total Test time' "$build/ctest.log" || true
exit "$status"
