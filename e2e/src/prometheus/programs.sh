#!/usr/bin/env bash
# Prints the folder with prometheus and promtool: that of PATH, or else Debian's package, unpacked into a cache folder outside the clone.
# Nothing is installed and no service is started.
#
#   WCM_CACHE     the cache folder (default $XDG_CACHE_HOME/workloads-controller-manager)
set -euo pipefail
cache=${WCM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/workloads-controller-manager}
folder=$cache/tools/prometheus
say() { printf '%s\n' "$*" >&2; }

if promtool=$(command -v promtool) && command -v prometheus >/dev/null; then
  dirname "$promtool"
  exit
fi
if [ -x "$folder/usr/bin/promtool" ]; then
  echo "$folder/usr/bin"
  exit
fi
if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
  say "Prometheus is needed: put prometheus and promtool on PATH (https://prometheus.io/download/)."
  exit 1
fi
mkdir -p "$cache/tools"
exec 9>"$cache/tools/.prometheus.lock"
flock 9
work=$(mktemp -d "$cache/tools/.prometheus.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
# A machine whose lists of packages are old, or not there, gets new ones if it lets us.
apt-get download prometheus >&2 || { apt-get update >&2 && apt-get download prometheus >&2; }
dpkg-deb --extract prometheus_*.deb unpacked
rm -rf "$folder"
mv unpacked "$folder"
echo "$folder/usr/bin"
