#!/usr/bin/env bash
# Writes an archive of images in Docker's format, made from files of this machine; no registry is asked.
#
# Usage: images.sh ARCHIVE IMAGE...
#
#   NAME=busybox[:COMMAND ARG...]   Debian's static busybox with all its applets
#   NAME=program:FILE               one program, with the libraries that it is linked with and loads from this machine
#   NAME=agnhost:FILE               busybox with this static program, which runs, and with the certificate beside it: the image of that
#                                   name of Kubernetes' own tests
#
# Every NAME is a repository with a tag. Images of the same files share their layer.
set -euo pipefail
archive=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/archive"
images=()

# layer ROOT: packs a folder as a layer, prints its digest
layer() {
  local digest
  tar --create --file "$work/layer" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --directory "$1" .
  digest=$(sha256sum "$work/layer" | cut -d' ' -f1)
  mv "$work/layer" "$work/archive/$digest.tar"
  echo "$digest"
}

# strings WORD...: a JSON list
strings() {
  local word list=
  for word in "$@"; do
    word=${word//\\/\\\\}
    list+=",\"${word//\"/\\\"}\""
  done
  echo "[${list#,}]"
}

# image NAME DIGESTS USER ENTRYPOINT COMMAND    the last two as JSON
image() {
  local config file layers
  read -ra layers <<<"$2"
  config='{"architecture":"'$(arch)'","os":"linux","rootfs":{"type":"layers","diff_ids":'$(strings "${layers[@]/#/sha256:}")'},"config":{"User":"'$3'",'
  config+='"Env":["PATH=/bin"],"Entrypoint":'$4',"Cmd":'$5',"Labels":{"name":"'$1'"}}}'
  file=$(sha256sum <<<"$config" | cut -d' ' -f1).json
  echo "$config" >"$work/archive/$file"
  images+=('{"Config":"'"$file"'","RepoTags":["'"$1"'"],"Layers":'"$(strings "${layers[@]/%/.tar}")"'}')
}

arch() {
  case $(uname -m) in
    x86_64) echo amd64 ;;
    aarch64) echo arm64 ;;
    *) uname -m ;;
  esac
}

busybox() {
  local applet root=$work/busybox
  mkdir -p "$root"/{bin,etc,root,var/run}
  mkdir -m 1777 "$root/tmp"
  cp /bin/busybox "$root/bin/"
  for applet in $(/bin/busybox --list); do
    [ "$applet" = busybox ] || ln -s busybox "$root/bin/$applet"
  done
  printf 'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n' >"$root/etc/passwd"
  printf 'root:x:0:\nnogroup:x:65534:\n' >"$root/etc/group"
  layer "$root"
}

program() {
  local library root=$work/program
  rm -rf "$root"
  mkdir -p "$root/etc"
  cp "$1" "$root/"
  if [ "$2" = agnhost ]; then
    ln -s agnhost "$root/agnhost-2"
    cp "$(dirname "$1")"/localhost.* "$root/"
    mkdir "$root/uploads"
  fi
  # None of a static program.
  for library in $( (ldd "$1" 2>/dev/null || true) | grep -o '/[^ ]*'); do
    cp --parents --dereference "$library" "$root"
  done
  layer "$root"
}

busybox=
agnhost=
for wanted in "$@"; do
  name=${wanted%%=*}
  what=${wanted#*=}
  case $what in
    busybox* | agnhost:*) [ -n "$busybox" ] || busybox=$(busybox) ;;
  esac
  case $what in
    busybox*)
      what=${what#busybox}
      read -ra command <<<"${what#:}"
      image "$name" "$busybox" "" null "$(strings "${command[@]}")" ;;
    program:*)
      file=${what#program:}
      image "$name" "$(program "$file" "")" 65532:65532 "$(strings "/$(basename "$file")")" null ;;
    agnhost:*)
      [ -n "$agnhost" ] || agnhost=$(program "${what#agnhost:}" agnhost)
      image "$name" "$busybox $agnhost" "" '["/agnhost"]' '["pause"]' ;;
    *) echo "images.sh: what is $what?" >&2; exit 1 ;;
  esac
done
(IFS=, && echo "[${images[*]}]") >"$work/archive/manifest.json"
tar --create --file "$archive" --sort=name --mtime=@0 --owner=0 --group=0 --directory "$work/archive" .
