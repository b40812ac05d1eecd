#!/usr/bin/env bash
# Builds what a kind cluster has beside the programs of build.sh, and kind itself, from their Go modules; prints the folder.
#
# Usage: programs.sh
#
#   WCM_CACHE   the cache folder, as for build.sh
set -euo pipefail
# CoreDNS is the one that kubeadm of the release names; the provisioner is the newest that is a Go module, not quite kind's.
modules=(sigs.k8s.io/kind@v0.33.0 sigs.k8s.io/cri-tools/cmd/crictl@v1.37.0 github.com/coredns/coredns@v1.14.6
  github.com/rancher/local-path-provisioner@v0.0.30)
bin=${WCM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/workloads-controller-manager}/kind/$(sha256sum <<<"${modules[*]}" | cut -c1-12)
for module in "${modules[@]}"; do
  program=${module%@*} program=${program##*/}
  [ -x "$bin/$program" ] && continue
  echo "building $module" >&2
  CGO_ENABLED=0 GOFLAGS=-mod=mod GOBIN=$bin go install -ldflags "-s -w" "$module"
done
echo "$bin"
