#!/usr/bin/env bash
# Everything that needs a GPU, from a build with -DFATHOM_CUDA=ON -DFATHOM_BENCH=ON; the short table comes last.
set -euo pipefail

usage() {
  cat <<'EOF'
usage: scripts/gpu_check.sh [conformance|bench|profile] [--build DIR]

  conformance  every op and whole models against the reference backend (default: this, then bench)
  bench        full-size speed with synthetic weights
  profile      time of every kernel of a decoding step and of a prompt, five layers (needs ncu)
  --build DIR  where the programs are (default: build/cuda)
EOF
}

mode=all
build=build/cuda
while [ $# -gt 0 ]; do
  case "$1" in
    conformance | bench | profile) mode=$1 ;;
    --build)
      build=$2
      shift
      ;;
    -h | --help)
      usage
      exit 0
      ;;
    *)
      usage >&2
      exit 2
      ;;
  esac
  shift
done

status=0
conformance() {
  local test log
  log=$(mktemp)
  for test in gpu_conformance_test gpu_model_test; do
    "$build/tests/gpu/$test" >"$log" 2>&1 || status=1
    grep -E "KL|worst|FAILED|exception|Skipped" "$log" || true
    tail -n 1 "$log"
  done
  rm -f "$log"
}

kernels() {
  ncu --cache-control none --clock-control none --metrics gpu__time_duration.sum \
    -k 'regex:^(?!.*fill).*' "$@" |
    grep -E "Context 1|duration" | paste - - |
    sed -E 's/fathom::cuda:://g; s/<unnamed>:://; s/\([A-Z].*Context.*sum//'
}

case $mode in
  conformance) conformance ;;
  bench) "$build/bench/gpu_bench" ;;
  profile)
    kernels -c 60 --launch-skip 125 "$build/bench/gpu_bench" --layers 5 --no-prefill --no-deep --no-batch --tokens 1
    kernels -c 110 --launch-skip 190 "$build/bench/gpu_bench" --layers 5 --no-decode --no-batch
    ;;
  all)
    conformance
    "$build/bench/gpu_bench"
    ;;
esac
exit $status
