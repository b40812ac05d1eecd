#!/usr/bin/env bash
# Makes the image of one architecture without a container engine, in target/image/ARCH: oci/ (an OCI layout), image.tar (the same for `ctr
# images import`, `docker load`, `kind load image-archive`), sbom.cdx.json, digest, and the program itself.
#
# Usage: image.sh [amd64|arm64]
#
#   IMAGE              the image's name (default localhost/workloads-controller-manager)
#   TAG                its tag (default: the program's release)
#   SOURCE_DATE_EPOCH  when it was made, in seconds since 1970 (default: when HEAD was committed)
#   WCM_CACHE          where the tools are installed (default $XDG_CACHE_HOME/workloads-controller-manager)
set -euo pipefail
cd "$(dirname "$0")"
arch=${1:-amd64}
cache=${WCM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/workloads-controller-manager}
root=$(cd ../.. && pwd)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -1)
created=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
revision=$(git describe --always --abbrev=40 --match= --dirty 2>/dev/null || true)
export PATH=$cache/tools/bin:$PATH

# cargo-auditable writes into the program what it was built from, where scanners of images find it; auditable2cdx, its sister, reads the
# bill of materials from there: it is of this very file. Both by the Rust project's secure code working group.
for tool in cargo-auditable@0.7.7 auditable2cdx@0.1.0; do
  grep -qs "^\"${tool/@/ } " "$cache/tools/.crates.toml" || cargo install --locked --debug --root "$cache/tools" "$tool" >&2
done

binary=$(./build.sh "$arch")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
auditable2cdx "$binary" >"$work/sbom.json"
out=$root/target/image/$arch
go run . --binary "$binary" --sbom "$work/sbom.json" --arch "$arch" --version "$version" --revision "$revision" --created "$created" \
  --name "${IMAGE:-localhost/workloads-controller-manager}:${TAG:-$version}" --out "$out"
cp "$binary" "$out/workloads-controller-manager"
# Does it find an API server by name, with no library beside it?
if [ "$arch" = "$(go env GOHOSTARCH)" ]; then
  PROGRAM=$binary go test -count=1 -run TestNamesAreFoundWithNothingButTheProgram . >&2
fi
