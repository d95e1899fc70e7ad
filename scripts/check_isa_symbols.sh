#!/usr/bin/env bash
# Fails when an object of src/backend/cpu/isa defines a weak symbol. Such an object is compiled for one instruction set; a
# weak symbol in it (an inline or template function of the standard library, say) may be the copy the linker keeps for the
# whole program, which then dies with SIGILL on older CPUs.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

usage() {
  cat <<'EOF'
usage: scripts/check_isa_symbols.sh [PRESET]

Looks at the objects built in build/PRESET (default: ci).
EOF
}

[ "${1:-}" != --help ] || { usage; exit 0; }
build=$root/build/${1:-ci}
if [ ! -d "$root/src/backend/cpu/isa" ]; then
  say "no ISA sources"
  exit 0
fi
mapfile -t objects < <(find "$build/src/backend" -path '*isa/*.o')
[ ${#objects[@]} -gt 0 ] || die "no ISA objects in $build: build it first"

if nm -A -C --defined-only "${objects[@]}" | grep -E ' [uVW] '; then
  die "weak symbols (above) in ISA objects: use intrinsics and static functions only"
fi
say "${#objects[@]} objects, no weak symbols"
