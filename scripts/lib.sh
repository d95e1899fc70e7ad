# Shared by the scripts of this folder, which source it: the repository root and messages. Messages go to stderr, so that
# stdout of run.sh is the model's text.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
jobs=$(nproc)

say() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; }
die() {
  say "$*"
  exit 1
}

# configure PRESET [cmake options]: makes build/PRESET when it is not there yet; afterwards the build keeps itself current.
configure() {
  local preset=$1
  shift
  [ -f "$root/build/$preset/build.ninja" ] && [ $# -eq 0 ] && return
  say "configuring build/$preset"
  (cd "$root" && cmake --preset "$preset" "$@") >&2
}
