#!/usr/bin/env bash
# Builds the program as one static file for an image without anything else in it, and prints that file. Two builds of the same sources by
# the same toolchain give the same bytes, wherever the clone and cargo's folders are.
#
# Usage: build.sh [amd64|arm64 [CARGO ARGUMENT...]]
#
#   WCM_CACHE     where cargo-auditable is installed (default $XDG_CACHE_HOME/workloads-controller-manager)
#   BUILD_DIR     the target folder, absolute (default target/image-build)
#
# glibc of Debian 12 or newer, static: its getaddrinfo reads /etc/hosts and asks /etc/resolv.conf's servers by itself, with no library
# beside it, and it takes packed relocations, which save half a megabyte.
set -euo pipefail
cd "$(dirname "$0")/../.."
arch=${1:-amd64}
[ $# -eq 0 ] || shift
cache=${WCM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/workloads-controller-manager}
build=${BUILD_DIR:-$PWD/target/image-build}

say() { printf '%s\n' "$*" >&2; }
case $arch in
  amd64) target=x86_64-unknown-linux-gnu linker=cc ;;
  arm64) target=aarch64-unknown-linux-gnu linker=aarch64-linux-gnu-gcc ;;
  *) say "build.sh: no such architecture: $arch (amd64 or arm64)"; exit 1 ;;
esac
[ "$arch" != amd64 ] || [ "$(uname -m)" = x86_64 ] || linker=x86_64-linux-gnu-gcc
[ "$arch" != arm64 ] || [ "$(uname -m)" != aarch64 ] || linker=cc
if ! command -v "$linker" >/dev/null; then
  say "$linker is needed to link for $arch (Debian: gcc-aarch64-linux-gnu or gcc-x86-64-linux-gnu, with libc6-dev of that architecture)"
  exit 1
fi
if [ ! -d "$(rustc --print sysroot)/lib/rustlib/$target" ]; then
  say "Rust's standard library for $arch is needed: rustup target add $target"
  exit 1
fi

# Paths of this machine would be in panic messages, in what C compilers write, and in the hashes of crates that include what their build
# scripts have made.
cargo_home=${CARGO_HOME:-$HOME/.cargo}
sysroot=$(rustc --print sysroot)
host=$(rustc -vV | sed -n 's/^host: //p')
# Rust's own linker, the same for both architectures whatever the machine's is.
flags="-C target-feature=+crt-static -C linker=$linker -C link-arg=-fuse-ld=lld -C link-arg=-B$sysroot/lib/rustlib/$host/bin/gcc-ld"
flags+=" -C link-arg=-Wl,-z,pack-relative-relocs"
for mapping in "$cargo_home=/cargo" "$sysroot=/rust" "$PWD=/src" "$build=/build"; do
  flags+=" --remap-path-prefix=$mapping"
done
export PATH=$cache/tools/bin:$PATH
export CFLAGS="-ffile-prefix-map=$cargo_home=/cargo -ffile-prefix-map=$build=/build"
export "CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<<"$target")_RUSTFLAGS=$flags"
[ "$linker" = cc ] || export "CC_$(tr - _ <<<"$target")=$linker"
# Fat: a megabyte less than thin, for minutes more of building.
cargo auditable build --release --locked --package workloads-controller-manager --target "$target" --target-dir "$build" \
  --config 'profile.release.strip="symbols"' --config 'profile.release.lto="fat"' "$@" >&2
echo "$build/$target/release/workloads-controller-manager"
