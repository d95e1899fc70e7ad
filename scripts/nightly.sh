#!/usr/bin/env bash
# What is too slow for every change: ThreadSanitizer, the tests under clang, long fuzzing.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

usage() {
  cat <<'EOF'
usage: scripts/nightly.sh [--fuzz-seconds N] [--label REGEX]

  --fuzz-seconds N  time for each fuzz target (default 3600)
  --label REGEX     labels of the tests that run under ThreadSanitizer (default: unit|server)
EOF
}

fuzz_seconds=3600
label='unit|server'
while [ $# -gt 0 ]; do
  case "$1" in
    --help) usage; exit 0 ;;
    --fuzz-seconds) fuzz_seconds=${2:?}; shift 2 ;;
    --label) label=${2:?}; shift 2 ;;
    *) usage >&2; exit 2 ;;
  esac
done

"$root/scripts/deps.sh" --checks
say "tests under ThreadSanitizer"
"$root/scripts/test.sh" --preset tsan --label "$label"
say "tests built with clang"
"$root/scripts/test.sh" --preset clang
say "long fuzzing"
"$root/scripts/fuzz.sh" --seconds "$fuzz_seconds"
say "passed"
