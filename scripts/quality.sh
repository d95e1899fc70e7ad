#!/usr/bin/env bash
# How far the cpu backend is from the reference backend on the same file, beside how far llama.cpp is.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

package=node-llama-cpp
version=3.22.1
libraries=@node-llama-cpp/linux-x64
types="Q8_0 Q4_0 Q4_K Q5_K Q6_K Q2_K Q3_K IQ2_XXS IQ3_XXS IQ4_NL IQ4_XS MXFP4 BF16 F16 F32"
texts=20
length=500
isa=
threads=$(nproc)
dir=$root/build/peer
source=

usage() {
  cat <<EOF
usage: scripts/quality.sh SOURCE_DIR [--types "T..."] [--texts N] [--isa I] [--threads N] [--dir DIR]

Converts the safetensors checkpoint in SOURCE_DIR to each type, lets the bundled model write $texts texts of $length
tokens, and prints for each type the KL divergence from the reference backend's predictions to those of the cpu backend
and of llama.cpp (activation simulation off: llama.cpp has none). The reference backend takes minutes for each type.

  --types    of all matrices, as for \`fathom convert --type\` (default: all that have a path of their own)
  --texts    how many (default: $texts)
  --isa      of the cpu backend (default: its best)
  --threads  default: all, $threads here
  --dir      where everything is kept for the next time (default: build/peer)

Needs node with npm, git, g++ and python3.
EOF
}

while [ $# -gt 0 ]; do
  case "$1" in
    --help) usage; exit 0 ;;
    --types | --texts | --isa | --threads | --dir) [ $# -gt 1 ] || { usage >&2; exit 2; } ;;&
    --types) types=$2; shift 2 ;;
    --texts) texts=$2; shift 2 ;;
    --isa) isa=$2; shift 2 ;;
    --threads) threads=$2; shift 2 ;;
    --dir) dir=$2; shift 2 ;;
    -*) usage >&2; exit 2 ;;
    *) source=$1; shift ;;
  esac
done
[ -n "$source" ] || { usage >&2; exit 2; }

command -v npm >/dev/null || die "npm is missing: the prebuilt llama.cpp comes from there"
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
lib=$dir/node_modules/$libraries/bins/linux-x64
fathom=$root/build/release/fathom

install_peer() {
  [ -d "$lib" ] || npm install --prefix "$dir" --silent --no-fund --no-audit --ignore-scripts \
    "$package@$version" "$libraries@$version" >&2
  [ -d "$dir/llama.cpp" ] ||
    git -c advice.detachedHead=false clone --quiet "$(find "$dir/node_modules/$package" -name gitRelease.bundle | head -n 1)" "$dir/llama.cpp"
  g++ -O2 -std=c++20 -isystem "$dir/llama.cpp/include" -isystem "$dir/llama.cpp/ggml/include" \
    "$root/tools/peer_logits.cpp" -o "$dir/peer_logits" -L"$lib" -l:libllama.v0.5.0.so -l:libggml.v0.5.0.so \
    -l:libggml-base.so -Wl,-rpath,"$lib" -Wl,--allow-shlib-undefined
}

# Texts of the bundled model's own, as it writes them by default: a model is compared where it is used.
write_texts() {
  local begins=("Once upon a time" "One day" "There was once a king who" "In the beginning" "Anna had a red ball."
    "It was a cold evening, and" "Tom and his dog" "The old woman said" "After dinner" "Question: What is 27 + 48?")
  local seed=0
  : >"$dir/texts.all"
  while [ "$("$fathom" tokenize --ids --no-special <"$dir/texts.all" | wc -w)" -lt $((texts * length + length)) ]; do
    for begin in "${begins[@]}"; do
      seed=$((seed + 1))
      printf '%s%s\n\n' "$begin" "$("$fathom" run --raw -p "$begin" --seed $seed -n 400 2>/dev/null)" >>"$dir/texts.all"
    done
  done
  # Cut to the tokens wanted, and tokenised again: what perplexity sees of the file.
  "$fathom" tokenize --ids --no-special <"$dir/texts.all" | tr -s ' \n' '\n\n' | head -n $((texts * length)) |
    "$fathom" detokenize >"$dir/texts"
  "$fathom" tokenize --ids --no-special <"$dir/texts" >"$dir/texts.ids"
}

kl() {  # MODEL BACKEND AGAINST -> "KL|SAME_TOP"
  local options=(--backend "$2" --activation-sim off --threads "$threads" -f "$dir/texts" --ctx $length --json)
  [ "$2" = reference ] || [ -z "$isa" ] || options+=(--isa "$isa")
  "$fathom" perplexity -m "$1" "${options[@]}" --against "$3" |
    python3 -c 'import json, sys; r = json.load(sys.stdin); print("%.2e | %.2f %%" % (r["kl_mean"], 100 * r["same_top"]))'
}

"$root/scripts/deps.sh"
configure release
cmake --build "$root/build/release" --target fathom >&2
install_peer
[ -f "$dir/texts.ids" ] || write_texts

say "$(wc -w <"$dir/texts.ids") tokens in texts of $length, $threads threads"
echo "| type | KL of cpu | same top token | KL of llama.cpp | same top token |"
echo "| --- | --- | --- | --- | --- |"
for type in $types; do
  model=$dir/quality-$type.gguf
  "$fathom" convert "$source" -o "$model" --type "$type" 2>/dev/null
  "$fathom" perplexity -m "$model" --backend reference --activation-sim off --threads "$threads" -f "$dir/texts" \
    --ctx $length --save-logits "$dir/quality.reference" >/dev/null
  ours=$(kl "$model" cpu "$dir/quality.reference")
  "$dir/peer_logits" "$lib" best "$model" "$dir/texts.ids" "$dir/quality.peer" $length "$threads"
  theirs=$(kl "$model" reference "$dir/quality.peer")
  echo "| $type | $ours | $theirs |"
  rm -f "$model" "$dir/quality.reference" "$dir/quality.peer"
done
