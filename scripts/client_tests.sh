#!/usr/bin/env bash
# Runs the official OpenAI and Anthropic libraries against `fathom serve` with the bundled model.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

usage() {
  cat <<'EOF'
usage: scripts/client_tests.sh [FATHOM]

Installs the client libraries from npm into build/test-clients and runs tests/clients/*_test.mjs.
  FATHOM  the program to test (default: build/release/fathom, which is built first)

Needs node with npm.
EOF
}

case "${1:-}" in
  --help) usage; exit 0 ;;
esac
command -v npm >/dev/null || die "npm is missing: the client libraries come from there"
program=${1:-}
if [ -z "$program" ]; then
  configure release
  cmake --build "$root/build/release" --target fathom >&2
  program=$root/build/release/fathom
fi
program=$(realpath "$program")
cd "$root"
scripts/fetch_test_clients.sh
for test in tests/clients/*_test.mjs; do
  node "$test" "$program" "$root/build/test-clients"
done
