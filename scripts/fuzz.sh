#!/usr/bin/env bash
# Builds the libFuzzer targets of tests/fuzz with ASan and UBSan and runs them, two at a time.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

usage() {
  cat <<'EOF'
usage: scripts/fuzz.sh [--seconds N] [NAME]...

Runs each target (or each NAME: gguf, ...) for N seconds (default 60), starting from tests/fuzz/corpus/NAME. New inputs go to
build/asan/corpus/NAME. An input that fails is left in build/asan/artifacts: fix the bug, then add the input to
tests/fuzz/corpus/NAME, where every test run replays it.
EOF
}

seconds=60
names=()
while [ $# -gt 0 ]; do
  case "$1" in
    --help) usage; exit 0 ;;
    --seconds) seconds=${2:?}; shift 2 ;;
    -*) usage >&2; exit 2 ;;
    *) names+=("$1"); shift ;;
  esac
done

configure asan
build=$root/build/asan
say "building the fuzz targets"
cmake --build "$build" --target fuzzers
if [ ${#names[@]} -eq 0 ]; then
  mapfile -t names < <(sed -n 's/^fathom_fuzz(\([a-z0-9_]*\).*/\1/p' "$root/tests/fuzz/CMakeLists.txt")
fi
[ ${#names[@]} -gt 0 ] || { say "no fuzz targets"; exit 0; }

run_one() {
  local name=$1 build=$2 seeds=$3 seconds=$4
  local log=$build/fuzzers/$name.log
  mkdir -p "$build/corpus/$name" "$build/artifacts"
  if ! "$build/fuzzers/fuzz_$name" -max_total_time="$seconds" -timeout=30 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="$build/artifacts/$name-" "$build/corpus/$name" "$seeds" >"$log" 2>&1 </dev/null; then
    tail -n 60 "$log"
    echo "fuzz $name: FAILED"
    return 1
  fi
  echo "fuzz $name: $(awk '/number_of_executed_units/ { print $2 }' "$log") inputs, none failed"
}
export -f run_one

say "running ${names[*]} for $seconds s each"
for name in "${names[@]}"; do
  printf '%s\0%s\0%s\0%s\0' "$name" "$build" "$root/tests/fuzz/corpus/$name" "$seconds"
done | xargs -0 -n 4 -P 2 bash -c 'run_one "$@"' run_one
