#!/usr/bin/env bash
# Writes the go.mods of one Kubernetes release: k8s.io/kubernetes with its staging modules, and etcd as that release pins it; for the
# control plane in versions/, for a node in programs/node/versions/.
# Usage: pin.sh 1.37.2      (then commit the four files)
set -euo pipefail
cd "$(dirname "$0")"
version=${1:?usage: pin.sh VERSION, e.g. 1.37.2}
staging="v0.${version#1.}"
upstream=$(GOFLAGS=-mod=mod go mod download -json "k8s.io/kubernetes@v$version" | sed -n 's/.*"GoMod": "\(.*\)",.*/\1/p')
etcd=$(sed -n 's#^\tgo.etcd.io/etcd/client/v3 \(v[0-9.]*\).*#\1#p' "$upstream")
go=$(sed -n 's/^go \(.*\)/\1/p' "$upstream")
godebug=$(sed -n 's/^godebug \(.*\)/\1/p' "$upstream")

pin() { # pin FOLDER MODULE
  mkdir -p "$1/versions"
  {
    echo "module $2"
    echo
    echo "go $go"
    [ -z "$godebug" ] || { echo; echo "godebug $godebug"; }
    echo
    echo "require ("
    printf '\tk8s.io/kubernetes v%s\n' "$version"
    printf '\tgo.etcd.io/etcd/server/v3 %s\n' "$etcd"
    echo ")"
    echo
    echo "replace ("
    sed -n 's#^\t\(k8s.io/[a-z-]*\) v0\.0\.0\( .*\)\{0,1\}$#\1#p' "$upstream" | sort -u | while read -r module; do
      printf '\t%s => %s %s\n' "$module" "$module" "$staging"
    done
    echo ")"
  } > "$1/versions/$version.mod"
  : > "$1/versions/$version.sum"
  # It drops what that module's tools.go does not import, etcd's server among a node's.
  (cd "$1" && GOFLAGS=-mod=mod go mod tidy -modfile="versions/$version.mod")
}
pin . controlplane
pin programs/node node
