#!/usr/bin/env bash
# Installs the system packages the full build needs, and those that are named, as far as they are missing, through apt.
set -euo pipefail

# postgresql is for tests, which start servers of their own.
PACKAGES=(llvm-22-dev libpolly-22-dev libzstd-dev zlib1g-dev libffi-dev libxml2-dev gcc g++ clang pkg-config postgresql "$@")

fail() { echo "setup: $1" >&2; exit 1; }

command -v cargo >/dev/null || fail "cargo is missing: install Rust 1.95 or newer (https://rustup.rs) and run this again"

missing=()
for package in "${PACKAGES[@]}"; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  echo "==> system packages: all there"
  exit 0
fi
command -v apt-get >/dev/null || fail "needs ${missing[*]}: this is no Debian or Ubuntu, install them and run this again"

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || fail "needs root to install ${missing[*]}: run 'apt-get install ${missing[*]}' as root"
  as_root=(sudo)
fi
echo "==> installing through apt, as root: ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -qq >"$log" 2>&1 || fail "apt-get update failed: $(tail -n 1 "$log")"
"${as_root[@]}" apt-get install -qq -y --no-install-recommends "${missing[@]}" >"$log" 2>&1 ||
  fail "could not install ${missing[*]}: $(grep -m 1 '^E:' "$log" || tail -n 1 "$log")"
