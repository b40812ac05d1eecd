#!/usr/bin/env bash
# Builds the program of templates/ for the release that build.sh chooses, into the same cache, and prints its file. A program of the
# same pins and sources is not built again.
set -euo pipefail
cd "$(dirname "$0")"
# Of the control plane's programs etcd is the quickest to build.
controlplane=$(./build.sh etcd)
pins=${controlplane##*/}
version=${pins%%-*}
folder=${controlplane%/*/*}/templates/$pins-$(cat templates/* | sha256sum | cut -c1-12)
program=$folder/templates
# The control plane's lock: what it is building now would be compiled twice.
exec 9>"$controlplane/.lock"
flock 9
if [ ! -x "$program" ]; then
  mkdir -p "$folder"
  # On copies: go marks in the pins what it finds imported.
  cp "versions/$version.mod" "$folder/go.mod"
  cp "versions/$version.sum" "$folder/go.sum"
  CGO_ENABLED=0 GOFLAGS=-mod=mod go build -modfile="$folder/go.mod" -buildvcs=false -ldflags=-s -o "$folder/.templates" ./templates >&2
  mv "$folder/.templates" "$program"
fi
echo "$program"
