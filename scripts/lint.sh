#!/usr/bin/env bash
# clang-tidy 14 over the sources; the list of checks is in .clang-tidy.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

usage() {
  cat <<'EOF'
usage: scripts/lint.sh [--changed BASE] [FILE]...

Checks the .cpp files of src/ (or FILE...) and the headers they include: those that the ci build
compiles, without the ISA files.
  --changed BASE  only .cpp files that differ from the commit BASE, or that include a header that does
EOF
}

base=
files=()
while [ $# -gt 0 ]; do
  case "$1" in
    --help) usage; exit 0 ;;
    --changed) base=${2:?}; shift 2 ;;
    -*) usage >&2; exit 2 ;;
    *) files+=("$1"); shift ;;
  esac
done

command -v clang-tidy-14 >/dev/null || die "clang-tidy-14 is missing (scripts/deps.sh --checks)"
cd "$root"
configure ci
cmake "$root/build/ci" >/dev/null  # the list of files may have changed

if [ -n "$base" ]; then
  mapfile -t changed < <(git diff --name-only --diff-filter=d "$base" -- 'src/*.cpp' 'src/*.h')
  for file in "${changed[@]}"; do
    case "$file" in
      *.cpp) files+=("$file") ;;
      *.h) mapfile -t -O "${#files[@]}" files < <(grep -rlF --include='*.cpp' "#include \"${file#src/}\"" src || true) ;;
    esac
  done
elif [ ${#files[@]} -eq 0 ]; then
  mapfile -t files < <(git ls-files --cached --others --exclude-standard -- 'src/*.cpp')
fi
# ISA files are kernels over intrinsics, whose headers one translation unit includes: other rules hold there. Files that the
# ci build does not compile (those of the CUDA backend) cannot be parsed without what they need.
mapfile -t files < <(printf '%s\n' "${files[@]}" | grep -v '^src/backend/cpu/isa/' | while read -r file; do
  if grep -qF "\"$root/$file\"" "$root/build/ci/compile_commands.json"; then
    printf '%s\n' "$file"
  fi
done)
[ ${#files[@]} -gt 0 ] || { say "no file to check"; exit 0; }

say "checking ${#files[@]} files"
# Drops the counts of suppressed warnings in system headers, which clang-tidy prints even when it is quiet.
printf '%s\0' "${files[@]}" | sort -zu |
  xargs -0 -n 1 -P "$jobs" clang-tidy-14 -p build/ci --quiet --extra-arg=-Wno-unknown-warning-option \
    2> >(grep -v 'warnings\? .*generated' >&2)
say "done"
