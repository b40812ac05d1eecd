#!/usr/bin/env bash
# Runs a command as if on a machine of its own: in network, mount, PID, IPC and UTS namespaces from which no packet leaves, with a cgroup
# for what its container runtime starts. All processes, mounts, networks and cgroups end with the command, or with this script.
#
# Usage: sandbox.sh --check               installs Debian packages that are missing; says in one sentence why a machine cannot, and exits with 3
#        sandbox.sh FOLDER COMMAND...     FOLDER is made, and removed again; but when the command fails, the logs in it stay
#
# The command finds in its environment
#   NODE_FOLDER   FOLDER
#   NODE_CGROUP   the cgroup, from the root of each hierarchy
#   NODE_ADDRESS  the machine's address
#   WCM_KEEP      if set, the logs stay in any case
#
# cgroup v1 and v2. Whoever kills this script with SIGKILL ends all processes, too; empty cgroups and the folder then stay until the next start.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
prefix=workloads-node
export PATH=$PATH:/usr/sbin:/sbin

cannot() { echo "$*"; exit 3; }

# missing: the Debian packages of programs that are not there
missing() {
  local pair file
  for pair in util-linux:unshare util-linux:nsenter util-linux:setpriv iproute2:ip procps:sysctl runc:runc iptables:iptables \
    conntrack:conntrack containernetworking-plugins:/usr/lib/cni/bridge busybox-static:/bin/busybox; do
    file=${pair#*:}
    command -v "$file" >/dev/null || echo "${pair%%:*}"
  done | sort -u | tr '\n' ' '
}

# hierarchies: the folders in which a cgroup is made
hierarchies() {
  if [ -f /sys/fs/cgroup/cgroup.controllers ]; then
    echo /sys/fs/cgroup
  else
    find /sys/fs/cgroup -mindepth 1 -maxdepth 1 -type d
  fi
}

# v2: a cgroup has the controllers that its parent hands down. kubelet wants these; most machines have handed them down already.
hand_down_controllers() {
  local root=/sys/fs/cgroup controller
  [ -f $root/cgroup.controllers ] || return 0
  for controller in cpu cpuset memory pids hugetlb; do
    ! grep -qw $controller $root/cgroup.controllers || grep -qw $controller $root/cgroup.subtree_control ||
      echo "+$controller" 2>/dev/null >$root/cgroup.subtree_control || return 1
  done
}

remove_cgroup() {
  local hierarchy left=() try
  for try in $(seq 50); do
    left=()
    for hierarchy in $(hierarchies); do
      [ -d "$hierarchy/$1" ] || continue
      find "$hierarchy/$1" -depth -type d -exec rmdir {} + 2>/dev/null || left+=("$hierarchy/$1")
    done
    [ ${#left[@]} -gt 0 ] || return 0
    sleep 0.1
  done
  echo "these cgroups are still in use: ${left[*]}" >&2
  return 1
}

alive() { grep -qs sandbox.sh "/proc/$1/cmdline"; }

# What scripts that were killed could not remove; the last part is that of folders beside this one that are named after their processes.
remove_stale() {
  local hierarchy folder pid
  for hierarchy in $(hierarchies); do
    for folder in "$hierarchy/$prefix"-*; do
      pid=${folder##*-}
      [ ! -d "$folder" ] || alive "$pid" || remove_cgroup "$prefix-$pid" || true
    done
  done
  for folder in "$(dirname "$1")"/[0-9]*/lib; do
    folder=${folder%/lib}
    [ ! -d "$folder" ] || alive "${folder##*/}" || rm -rf "$folder"
  done
}

check() {
  local packages test=$prefix-test-$$ hierarchy
  [ "$(uname -s)" = Linux ] || cannot "a node needs Linux"
  [ "$(id -u)" = 0 ] || cannot "a node needs root"
  packages=$(missing)
  if [ -n "$packages" ]; then
    command -v apt-get >/dev/null || cannot "a node needs these packages, by their Debian names: $packages"
    echo "installing $packages" >&2
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages; } >/dev/null 2>&1 || true
    packages=$(missing)
    [ -z "$packages" ] || cannot "a node needs these packages, and apt-get cannot install them: $packages"
  fi
  unshare --net --mount --pid --ipc --uts --fork sh -c 'mount -t proc proc /proc && mount -t tmpfs tmpfs /mnt && ip link add test0 type bridge' \
    >/dev/null 2>&1 || cannot "a node needs network, mount, PID, IPC and UTS namespaces, and this machine does not let us have them"
  for hierarchy in $(hierarchies); do
    { mkdir "$hierarchy/$test" && rmdir "$hierarchy/$test"; } 2>/dev/null || cannot "a node needs cgroups, and $hierarchy cannot be written"
  done
  hand_down_controllers || cannot "a node needs cgroup controllers, and the root cgroup hands down only: $(cat /sys/fs/cgroup/cgroup.subtree_control)"
}

if [ "${1:-}" = --check ]; then
  check
  exit
fi
[ $# -ge 2 ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" | head -7 >&2; exit 2; }

folder=$1
shift
if [ -e "$folder" ]; then
  echo "$folder is there already" >&2
  exit 1
fi
remove_stale "$folder"
mkdir -p "$folder"/{log/pods,lib,tmp}
chmod 1777 "$folder/tmp"
folder=$(cd "$folder" && pwd)
cgroup=$prefix-$$
sandbox=

end() {
  local status=$?
  trap '' INT TERM HUP
  # The namespaces' first process ends with unshare, and everything inside with it.
  [ -z "$sandbox" ] || { kill -KILL "$sandbox" 2>/dev/null || true; wait "$sandbox" 2>/dev/null || true; }
  remove_cgroup "$cgroup" || status=1
  # Large, and of no use to a reader.
  rm -rf "$folder"/lib
  case ${WCM_KEEP:+keep}$status in
    0 | 130 | 143) rm -rf "$folder" ;;
    *) echo "the node's logs are kept in $folder" >&2 ;;
  esac
  exit $status
}
trap end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

for hierarchy in $(hierarchies); do
  mkdir "$hierarchy/$cgroup"
  # v1: a cgroup has neither processors nor memory nodes until it is told so.
  for file in cpuset.cpus cpuset.mems; do
    [ -f /sys/fs/cgroup/cgroup.controllers ] || [ ! -f "$hierarchy/$file" ] || cat "$hierarchy/$file" >"$hierarchy/$cgroup/$file"
  done
done

export NODE_FOLDER=$folder NODE_CGROUP=$cgroup NODE_ADDRESS=172.30.0.2
# In the background, so that a signal is acted on at once; with the caller's standard input.
setpriv --pdeathsig KILL unshare --net --mount --pid --ipc --uts --fork --kill-child --propagation private \
  bash "$here/init.sh" "$@" <&0 &
sandbox=$!
wait "$sandbox"
