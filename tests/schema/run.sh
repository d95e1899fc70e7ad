#!/usr/bin/env bash
# usage: tests/schema/run.sh SAMPLER FOLDER [COUNT [sampler options]]
# Samples replies for COUNT schemas (default 40; the whole set is 200) and validates them with ajv, which npm installs
# into FOLDER once. Exit status 77: npm cannot.
set -euo pipefail

sampler=$(realpath "$1")
folder=$2
count=${3:-40}
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$folder"
cd "$folder"
if [ ! -d node_modules/ajv-formats ]; then
  if ! npm install --silent --no-fund --no-audit --prefix . ajv@8.20.0 ajv-formats@3.0.1 > npm.log 2>&1; then
    echo "skipped: ajv, the independent validator, cannot be installed with npm"
    exit 77
  fi
fi
node "$here/validate.mjs" "$sampler" "$count" "$here/../../models/fathom-tiny.gguf" "${@:4}"
