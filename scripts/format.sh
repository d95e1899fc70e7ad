#!/usr/bin/env bash
# Formats every C++ and CUDA file of the repository with clang-format 14.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

usage() {
  cat <<'EOF'
usage: scripts/format.sh [--check]

  --check  change nothing; fail when a file would change
EOF
}

mode=(-i)
case "${1:-}" in
  --help) usage; exit 0 ;;
  --check) mode=(--dry-run -Werror) ;;
  "") ;;
  *) usage >&2; exit 2 ;;
esac

command -v clang-format-14 >/dev/null || die "clang-format-14 is missing (scripts/deps.sh --checks): other versions format differently"
cd "$root"
git ls-files -z --cached --others --exclude-standard -- '*.h' '*.cpp' '*.cu' '*.cuh' |
  xargs -0 -r -n 16 -P "$jobs" clang-format-14 "${mode[@]}"
say "done (${mode[*]})"
