#!/usr/bin/env bash
# Builds etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kubectl of one Kubernetes release into a cache
# folder outside the clone and prints that folder. What is there already is not built again.
#
# Usage: build.sh [PROGRAM...]    only these of the five; without any, all
#
#   K8S_VERSION   the release, one of versions/*.mod (default 1.37.2)
#   WCM_CACHE     the cache folder (default $XDG_CACHE_HOME/workloads-controller-manager)
set -euo pipefail
cd "$(dirname "$0")"
version=${K8S_VERSION:-1.37.2}
cache=${WCM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/workloads-controller-manager}
modfile=versions/$version.mod
programs=(etcd kube-apiserver kube-controller-manager kube-scheduler kubectl)
[ $# -eq 0 ] || programs=("$@")

say() { printf '%s\n' "$*" >&2; }
if [ ! -f "$modfile" ]; then
  say "K8S_VERSION=$version is not pinned here; there is: $(ls versions | sed -n 's/\.mod$//p' | tr '\n' ' ')"
  exit 1
fi

# The pins are part of the folder's name: a changed pin is a different build.
pins=$(cat "$modfile" "${modfile%.mod}.sum" | sha256sum | cut -c1-12)
bin=$cache/controlplane/$version-$pins
mkdir -p "$bin"
missing=0
for program in "${programs[@]}"; do
  [ -x "$bin/$program" ] || missing=1
done
if [ $missing = 0 ]; then
  echo "$bin"
  exit
fi
if ! command -v go >/dev/null; then
  say "Go is needed to build the control plane: install Go 1.26 or newer (https://go.dev/dl/) and put it on PATH."
  exit 1
fi
# Tests that start together must not build the same thing together.
exec 9>"$bin/.lock"
flock 9

minor=${version#1.}
minor=${minor%%.*}
stamp=k8s.io/component-base/version
ldflags="-s -w -X $stamp.gitVersion=v$version -X $stamp.gitMajor=1 -X $stamp.gitMinor=$minor"
for i in "${!programs[@]}"; do
  program=${programs[$i]}
  [ -x "$bin/$program" ] && continue
  case $program in
    etcd) package=go.etcd.io/etcd/server/v3 ;;
    kube*) package=k8s.io/kubernetes/cmd/$program ;;
    *) say "$program is none of the programs of a control plane"; exit 1 ;;
  esac
  say "building $program for Kubernetes $version ($((i + 1)) of ${#programs[@]}; the first build of a release takes minutes, later ones nothing)"
  started=$SECONDS
  # No -trimpath: upstream's integration tests share this build cache and cannot be built with it.
  CGO_ENABLED=0 GOFLAGS=-mod=mod go build -modfile="$modfile" -ldflags "$ldflags" -o "$bin/.$program" "$package" >&2
  mv "$bin/.$program" "$bin/$program"
  say "built $program in $((SECONDS - started)) s"
done
echo "$bin"
