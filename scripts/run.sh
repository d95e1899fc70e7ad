#!/usr/bin/env bash
# From a fresh checkout to generated text in one command.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

usage() {
  cat <<'EOF'
usage: scripts/run.sh "PROMPT" [OPTION]...

Installs missing packages, builds the program (first time: a few minutes, then seconds) and runs
  build/release/fathom run -p "PROMPT" [OPTION]...
The options are those of `fathom run`: -m MODEL, -n TOKENS, --temp T, ... (build/release/fathom run --help).
Without -m it uses the small model that comes with the program.
EOF
}

case "${1:-}" in
  --help) usage; exit 0 ;;
  "" | -*) usage >&2; exit 2 ;;
esac

"$root/scripts/deps.sh"
configure release
program=$root/build/release/fathom
quiet=(-- --quiet)
[ -x "$program" ] || quiet=()
cmake --build "$root/build/release" --target fathom "${quiet[@]}" >&2

prompt=$1
shift
exec "$program" run -p "$prompt" "$@"
