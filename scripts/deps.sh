#!/usr/bin/env bash
# Installs the Debian packages Fathom is built from. Does nothing, quickly, when all are there.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

build_packages=(
  g++ cmake ninja-build pkg-config
  libcli11-dev libcpp-httplib-dev libedit-dev libfmt-dev libgmock-dev libgtest-dev libicu-dev libpcre2-dev libspdlog-dev libxxhash-dev
  nlohmann-json3-dev
)
check_packages=(binutils clang-14 clang-format-14 clang-tidy-14 git python3)

usage() {
  cat <<EOF
usage: scripts/deps.sh [--checks]

Installs what the build and the tests need:
  ${build_packages[*]}
  --checks  also what the static checks, the sanitizers and the fuzzers need:
            ${check_packages[*]}
EOF
}

packages=("${build_packages[@]}")
case "${1:-}" in
  --help) usage; exit 0 ;;
  --checks) packages+=("${check_packages[@]}") ;;
  "") ;;
  *) usage >&2; exit 2 ;;
esac

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  say "this is not a Debian system: nothing is installed. The build needs the equivalents of: ${packages[*]}"
  exit 0
fi

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || die "run this as root: apt-get install ${missing[*]}"
  as_root=(sudo)
fi
say "installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -q >&2
"${as_root[@]}" apt-get install -q -y --no-install-recommends "${missing[@]}" >&2
