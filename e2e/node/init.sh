#!/usr/bin/env bash
# The first process of a sandbox: prepares mounts and the network, runs the command, reaps what others leave. Only sandbox.sh starts it.
set -euo pipefail

# hide FOLDER MOUNT...: covers a folder of the machine; what is needed of it is put back at its place
hide() {
  local folder=$1 path fds=() paths=() fd n
  shift
  for path in "${needed[@]}"; do
    case $path/ in "$folder"/*) ;; *) continue ;; esac
    exec {fd}<"$path"
    fds+=("$fd") paths+=("$path")
  done
  mount "$@" "$folder"
  for n in "${!fds[@]}"; do
    mkdir -p "${paths[n]}"
    # The path of the open folder leads to what is covered now; it must not be resolved here.
    mount --no-canonicalize --bind "/proc/self/fd/${fds[n]}" "${paths[n]}"
    fd=${fds[n]}
    exec {fd}<&-
  done
}

# All of it is in a function, so that bash has read it before the file can change.
main() {
  local clone cache needed=() cgroups name value
  clone=$(cd "$(dirname "$0")/../.." && pwd)
  cache=${WCM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/workloads-controller-manager}
  needed=("$NODE_FOLDER" "$clone" "$(dirname "$(dirname "$(readlink -f "$1")")")")
  for value in "$cache" "${CARGO_TARGET_DIR:-}" "$(dirname "${WCM_BIN:-/bin/sh}")" "$(dirname "${WCM_IMAGE:-/bin/sh}")"; do
    [ ! -d "$value" ] || needed+=("$(cd "$value" && pwd)")
  done

  # With processes of its own, and the network devices of its own; cgroups are the machine's.
  mount -t proc proc /proc
  cgroups=$NODE_FOLDER/tmp/cgroups
  mkdir "$cgroups"
  mount --rbind /sys/fs/cgroup "$cgroups"
  mount -t sysfs sysfs /sys
  mount --rbind "$cgroups" /sys/fs/cgroup
  umount -l "$cgroups"
  rmdir "$cgroups"
  # Where containerd, CNI, kubelet and kube-controller-manager's hostpath provisioner keep what is theirs, by paths that cannot be chosen.
  hide /run -t tmpfs -o mode=755 tmpfs
  mkdir -p /run/lock /run/netns
  hide /var/lib --bind "$NODE_FOLDER/lib"
  hide /var/log --bind "$NODE_FOLDER/log"
  hide /tmp --bind "$NODE_FOLDER/tmp"
  # kubelet wants these settings: it sees files with its values, and the machine's stay as they are.
  mkdir /run/sysctl
  while read -r name value; do
    echo "$value" >"/run/sysctl/${name//\//.}"
    mount --bind "/run/sysctl/${name//\//.}" "/proc/sys/$name"
  done <<<"vm/overcommit_memory 1
vm/panic_on_oom 0
kernel/panic 10
kernel/panic_on_oops 1"
  # kubelet wants its volumes' mounts to be seen by the runtime.
  mount --make-rshared /

  # A bridge instead of a network card, which a machine need not be able to make; nothing leads out of it. Processes of the node reach
  # service addresses through it, where kube-proxy's rules meet them.
  hostname node1
  ip link set lo up
  ip link add node0 type bridge
  ip addr add "$NODE_ADDRESS/24" dev node0
  ip link set node0 up
  ip route add 10.96.0.0/16 dev node0
  sysctl -qw net.ipv4.ip_forward=1
  # Not there without the module br_netfilter; then pods of one node reach each other by their own addresses only.
  sysctl -qw net.bridge.bridge-nf-call-iptables=1 2>/dev/null || true


  # What is built inside would be built there.
  export WCM_CACHE=$cache TMPDIR=$NODE_FOLDER/tmp
  unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY KUBECONFIG
  "$@" &
  set +e
  # The first process is the parent of all whose own have ended, and bash reaps them while it waits.
  wait $!
  exit $?
}
main "$@"
