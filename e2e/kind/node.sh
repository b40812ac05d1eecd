#!/usr/bin/env bash
# Makes the image of a kind node from Debian packages and Go modules; none is pulled.
#
# Usage: node.sh IMAGE    as root, with Docker, Go and Debian's mmdebstrap
#
#   K8S_VERSION, WCM_CACHE   as for build.sh
set -euo pipefail
cd "$(dirname "$0")"
if ! command -v mmdebstrap >/dev/null; then
  echo "mmdebstrap is needed to make the image of a kind node (Debian: apt-get install mmdebstrap)." >&2
  exit 1
fi
image=$1
version=${K8S_VERSION:-1.37.2}
packages=ca-certificates,conntrack,containernetworking-plugins,iproute2,iptables,jq,kmod,mount,procps,runc,systemd
base=workloads-kind-base:$(sha256sum <<<"$packages" | cut -c1-12)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
pods=$work/pods node=$work/node
mkdir -p "$pods" "$node"/{usr/bin,usr/local/bin,kind/manifests}

tools=$(./programs.sh)
kind=$(GOFLAGS=-mod=mod go mod download -json "sigs.k8s.io/kind@$("$tools/kind" version --quiet | sed 's/^v*/v/')" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
folders=$(../controlplane/build.sh etcd kube-apiserver kube-controller-manager kube-scheduler kubectl kubeadm kubelet kube-proxy containerd \
  containerd-shim-runc-v2 ctr)
# copy TO PROGRAM...: out of the first folder that has it
copy() {
  local to=$1 folder program
  shift
  for program in "$@"; do
    for folder in $folders "$tools"; do
      [ ! -e "$folder/$program" ] || { cp "$folder/$program" "$to/"; break; }
    done
    [ -e "$to/$program" ] || { echo "node.sh: nobody has built $program" >&2; exit 1; }
  done
}
copy "$pods" etcd kube-apiserver kube-controller-manager kube-scheduler kube-proxy kubectl coredns local-path-provisioner
copy "$node/usr/bin" kubeadm kubelet kubectl
copy "$node/usr/local/bin" containerd containerd-shim-runc-v2 ctr crictl
# Of all pods two do not say what they run: pause has no arguments, CoreDNS has options only.
printf '#!/bin/sh\n[ $# -gt 0 ] || exec sleep infinity\nexec coredns "$@"\n' >"$pods/pod"
chmod 755 "$pods/pod"

cp -r --no-preserve=mode "$kind"/images/base/files/{etc,kind,usr} "$node/"
chmod 755 "$node"/kind/bin/* "$node"/usr/local/bin/*
# kubelet refuses cgroup v1 unless it is told not to.
sed -i '/^KUBELET_EXTRA_ARGS=/s/$/ --fail-cgroupv1=false/' "$node/etc/default/kubelet"
echo -n "v$version" >"$node/kind/version"
cp cni.yaml "$node/kind/manifests/default-cni.yaml"
storage=$kind/pkg/build/nodeimage/const_storage.go
constant() { sed -n "s/^const $1 = \"\(.*\)\"/\1/p" "$storage"; }
provisioner=$(constant storageProvisionerImage) helper=$(constant storageHelperImage)
sed -e '1,/^const defaultStorageManifest/d' -e '/^`$/,$d' -e "s|\` + storageProvisionerImage + \`|$provisioner|" \
  -e "s|\` + storageHelperImage + \`|$helper|" "$storage" >"$node/kind/manifests/default-storage.yaml"

docker image inspect "$base" >/dev/null 2>&1 || mmdebstrap --quiet --variant=minbase --include="$packages" bookworm - | docker import - "$base"
build=(docker build --quiet --build-arg "BASE=$base" --file Dockerfile)
"${build[@]}" --target pods --tag localhost/pods:1 "$work"
pause=$(sed -n 's/.*sandbox_image = "\(.*\)"/\1/p' "$node/etc/containerd/config.toml")
mapfile -t names < <("$node/usr/bin/kubeadm" config images list --kubernetes-version "v$version")
names+=("$pause" "$provisioner" "$helper")
for name in "${names[@]}"; do docker tag localhost/pods:1 "$name"; done
docker save --output "$work/images.tar" localhost/pods:1 "${names[@]}"
docker rmi --no-prune "${names[@]}" >/dev/null
"${build[@]}" --tag "$image" "$work"
