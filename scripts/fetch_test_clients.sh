#!/usr/bin/env bash
# Installs the official client libraries that the server is tested with (tests/clients/package.json):
#   scripts/fetch_test_clients.sh [FOLDER]      FOLDER/node_modules; default build/test-clients
# Without npm or network it fails, and the tests say that they were skipped.
set -euo pipefail

cd "$(dirname "$0")/.."
folder=${1:-build/test-clients}
mkdir -p "$folder"
if cmp -s tests/clients/package.json "$folder/installed.json"; then
  exit 0
fi
cp tests/clients/package.json "$folder/package.json"
npm install --prefix "$folder" --silent --no-fund --no-audit --no-package-lock --ignore-scripts >/dev/null
cp tests/clients/package.json "$folder/installed.json"
