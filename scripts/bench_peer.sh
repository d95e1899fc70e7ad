#!/usr/bin/env bash
# Speed side by side with llama.cpp on the same files, on this machine's CPU.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

package=node-llama-cpp
version=3.22.1
libraries=@node-llama-cpp/linux-x64
types="Q4_K Q8_0 MXFP4 IQ2_XXS/Q2_K"
isas="best avx512 avx2"
rounds=2
threads=$(nproc)
dir=$root/build/peer
prompt=512
gen=32

usage() {
  cat <<EOF
usage: scripts/bench_peer.sh [--types "T..."] [--isas "I..."] [--rounds N] [--threads N] [--dir DIR]

Installs a prebuilt llama.cpp from npm, writes one synthetic file of shape mid per type of experts, runs both engines
alternately and prints the medians: prefill of $prompt tokens, and $gen tokens decoded behind them. About six minutes.
Nothing else should run meanwhile.

  --types    of the experts, as for \`fathom synth --experts\` (default: $types)
  --isas     amx, avx512, avx2: each against llama.cpp's library for the same instructions; best: what both choose
             themselves (default: $isas)
  --rounds   runs of each engine per line (default: $rounds)
  --threads  of both (default: all, $threads here)
  --dir      where everything is kept for the next time (default: build/peer)

Needs node with npm, git, g++ and python3.
EOF
}

while [ $# -gt 0 ]; do
  case "$1" in
    --help) usage; exit 0 ;;
    --types | --isas | --rounds | --threads | --dir) [ $# -gt 1 ] || { usage >&2; exit 2; } ;;&
    --types) types=$2 ;;
    --isas) isas=$2 ;;
    --rounds) rounds=$2 ;;
    --threads) threads=$2 ;;
    --dir) dir=$2 ;;
    *) usage >&2; exit 2 ;;
  esac
  shift 2
done

command -v npm >/dev/null || die "npm is missing: the prebuilt llama.cpp comes from there"
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
lib=$dir/node_modules/$libraries/bins/linux-x64
fathom=$root/build/release/fathom

install_peer() {
  [ -d "$lib" ] || npm install --prefix "$dir" --silent --no-fund --no-audit --ignore-scripts \
    "$package@$version" "$libraries@$version" >&2
  # The package brings the sources as a git bundle, of which the public headers are needed.
  [ -d "$dir/llama.cpp" ] ||
    git -c advice.detachedHead=false clone --quiet "$(find "$dir/node_modules/$package" -name gitRelease.bundle | head -n 1)" "$dir/llama.cpp"
  g++ -O2 -std=c++20 -isystem "$dir/llama.cpp/include" -isystem "$dir/llama.cpp/ggml/include" \
    "$root/tools/peer_bench.cpp" -o "$dir/peer_bench" -L"$lib" -l:libllama.v0.5.0.so -l:libggml.v0.5.0.so \
    -l:libggml-base.so -Wl,-rpath,"$lib" -Wl,--allow-shlib-undefined
}

model_of() { echo "$dir/mid-${1//\//-}.gguf"; }

run_peer() {  # TYPE ISA -> "PREFILL DECODE"
  local cpu_library=()
  case "$2" in
    amx) cpu_library=(--cpu-lib libggml-cpu-sapphirerapids.so) ;;
    avx512) cpu_library=(--cpu-lib libggml-cpu-icelake.so) ;;
    avx2) cpu_library=(--cpu-lib libggml-cpu-haswell.so) ;;
  esac
  "$dir/peer_bench" "$lib" "$(model_of "$1")" --prompt $prompt --gen $gen --threads "$threads" --repeat 2 \
    "${cpu_library[@]}"
}

rate() { python3 -c 'import json, sys; print(json.load(sys.stdin)[0][sys.argv[1]])' "$1"; }

run_fathom() {  # the same
  local common=(bench -m "$(model_of "$1")" --backend cpu --threads "$threads" --repeat 2 --json)
  [ "$2" = best ] || common+=(--isa "$2")
  echo "$("$fathom" "${common[@]}" --prompt $prompt --gen 0 | rate prefill_tok_s)" \
    "$("$fathom" "${common[@]}" --prompt 0 --depth $prompt --gen $gen | rate decode_tok_s)"
}

"$root/scripts/deps.sh"
configure release
cmake --build "$root/build/release" --target fathom >&2
install_peer

results=$dir/results.txt
: >"$results"
for type in $types; do
  model=$(model_of "$type")
  [ -f "$model" ] || "$fathom" synth mid --experts "$type" -o "$model" >&2
  for isa in $isas; do
    for ((round = 1; round <= rounds; ++round)); do
      say "$type, $isa, round $round of $rounds"
      echo "$type $isa llama.cpp $(run_peer "$type" "$isa")" >>"$results"
      echo "$type $isa fathom $(run_fathom "$type" "$isa")" >>"$results"
    done
  done
done

say "load of the last minute: $(cut -d ' ' -f 1 /proc/loadavg) on $(nproc) CPUs; $threads threads each"
python3 - "$results" <<'EOF'
import statistics
import sys

rates = {}
for line in open(sys.argv[1]):
    kind, isa, engine, prefill, decode = line.split()
    rates.setdefault((kind, isa), {}).setdefault(engine, []).append((float(prefill), float(decode)))

print("| experts | isa | prefill: fathom | llama.cpp | ratio | decode: fathom | llama.cpp | ratio |")
print("| --- | --- | --- | --- | --- | --- | --- | --- |")
for (kind, isa), engines in rates.items():
    cells = []
    for column in (0, 1):
        ours, theirs = (statistics.median(run[column] for run in engines[e]) for e in ("fathom", "llama.cpp"))
        cells += [f"{ours:.1f}", f"{theirs:.1f}", f"{ours / theirs:.2f}"]
    print("|", " | ".join([kind, isa, *cells]), "|")
EOF
