#!/usr/bin/env bash
# Builds programs from their Go modules into a cache folder outside the clone and prints that folder. What is there already is not built
# again. Folders of several modules are printed in the order in which they were asked for.
#
# Usage: build.sh [PROGRAM...]    without any: etcd kube-apiserver kube-controller-manager kube-scheduler kubectl
#
#   of a Kubernetes release   those five; on demand kubeadm kubelet kube-proxy, and for its own tests e2e.test agnhost
#   others, on demand         containerd containerd-shim-runc-v2 ctr; helm
#
#   K8S_VERSION   the release, one of versions/*.mod (default 1.37.2)
#   WCM_CACHE     the cache folder (default $XDG_CACHE_HOME/workloads-controller-manager)
set -euo pipefail
cd "$(dirname "$0")"
version=${K8S_VERSION:-1.37.2}
cache=${WCM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/workloads-controller-manager}
programs=(etcd kube-apiserver kube-controller-manager kube-scheduler kubectl)
[ $# -eq 0 ] || programs=("$@")

say() { printf '%s\n' "$*" >&2; }
sums() { cat "$1" "${1%.mod}.sum" | sha256sum | cut -c1-12; }
pinned() { sed -n "s#^\(require \)\?\t*$1 v\([0-9.]*\).*#\2#p" "$2" | head -1; }

# release_of FOLDER: sets release and modfile to the Kubernetes release's
release_of() {
  release=$version
  modfile=$1/versions/$version.mod
  [ -f "$modfile" ] && return
  say "K8S_VERSION=$version is not pinned here; there is: $(cd "$1/versions" && echo *.mod | sed 's/\.mod//g')"
  exit 1
}

# locate PROGRAM: sets where it is built from (module, modfile, release, package, flags) and where to (bin).
# The pins are part of the folder's name: a changed pin is a different build.
locate() {
  flags=(-ldflags "-s -w")
  case $1 in
    etcd | kube-apiserver | kube-controller-manager | kube-scheduler | kubectl) module=. family=controlplane ;;
    kubeadm | kubelet | kube-proxy | e2e.test | agnhost) module=programs/node family=node ;;
    containerd | containerd-shim-runc-v2 | ctr) module=programs/containerd family=containerd ;;
    helm) module=programs/helm family=helm ;;
    *) say "$1 is none of the programs that are built here"; exit 1 ;;
  esac
  local minor stamp=k8s.io/component-base/version
  case $family in
    controlplane | node)
      release_of $module
      minor=${release#1.}
      flags=(-ldflags "-s -w -X $stamp.gitVersion=v$release -X $stamp.gitMajor=1 -X $stamp.gitMinor=${minor%%.*}")
      case $1 in
        etcd) package=go.etcd.io/etcd/server/v3 ;;
        kube*) package=k8s.io/kubernetes/cmd/$1 ;;
        e2e.test) package=k8s.io/kubernetes/test/e2e ;;
        agnhost) package=k8s.io/kubernetes/test/images/agnhost ;;
      esac ;;
    containerd)
      modfile=$module/go.mod
      release=$(pinned github.com/containerd/containerd/v2 $modfile)
      package=github.com/containerd/containerd/v2/cmd/$1
      flags=(-tags "no_btrfs no_devmapper no_zfs" -ldflags "-s -w -X github.com/containerd/containerd/v2/version.Version=v$release") ;;
    helm)
      modfile=$module/go.mod
      release=$(pinned helm.sh/helm/v4 $modfile)
      package=helm.sh/helm/v4/cmd/helm
      flags=(-ldflags "-s -w -X helm.sh/helm/v4/internal/version.version=v$release") ;;
  esac
  bin=$cache/$family/$release-$(sums "$modfile")
}

build() {
  local started=$SECONDS action=build
  if ! command -v go >/dev/null; then
    say "Go is needed to build $1: install Go 1.26 or newer (https://go.dev/dl/) and put it on PATH."
    exit 1
  fi
  say "building $1 $release (the first build of a release takes minutes, later ones nothing)"
  [ "$1" != e2e.test ] || action='test -c'
  # No -trimpath: upstream's integration tests share this build cache and cannot be built with it.
  # shellcheck disable=SC2086
  (cd $module && CGO_ENABLED=0 GOFLAGS=-mod=mod go $action -modfile="${modfile#"$module"/}" "${flags[@]}" -o "$bin/.$1" "$package" >&2)
  if [ "$1" = agnhost ]; then
    # Its image has these, too; some tests only ask whether it serves them.
    install -m 644 "$(cd $module && GOFLAGS=-mod=mod go list -m -modfile="${modfile#"$module"/}" -f '{{.Dir}}' k8s.io/kubernetes)"/test/images/agnhost/porter/localhost.* "$bin/"
  fi
  mv "$bin/.$1" "$bin/$1"
  say "built $1 in $((SECONDS - started)) s"
}

printed=
for program in "${programs[@]}"; do
  locate "$program"
  if [ ! -x "$bin/$program" ]; then
    mkdir -p "$bin"
    # Tests that start together must not build the same thing together.
    exec 9>"$bin/.lock"
    flock 9
    [ -x "$bin/$program" ] || build "$program"
    exec 9>&-
  fi
  case $printed in
    *"|$bin|"*) ;;
    *) folders+=("$bin"); printed="$printed|$bin|" ;;
  esac
done
printf '%s\n' "${folders[@]}"
