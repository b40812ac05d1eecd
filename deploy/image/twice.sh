#!/usr/bin/env bash
# Builds HEAD twice, in two folders with target folders elsewhere, and fails unless the programs are the same to the byte.
#
# Usage: twice.sh [CARGO ARGUMENT...]
#
# A quick run, of what paths could do: twice.sh --config profile.release.opt-level=0 --config 'profile.release.lto="off"'
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for place in one another/and/deeper; do
  mkdir -p "$work/$place"
  git archive HEAD | tar -x -C "$work/$place"
  BUILD_DIR=$work/target-${place%%/*} "$work/$place/deploy/image/build.sh" amd64 "$@" >"$work/${place%%/*}.path"
done
one=$(cat "$work/one.path") another=$(cat "$work/another.path")
if ! cmp "$one" "$another"; then
  for file in "$work"/target-one/*/release/deps/*.rlib; do
    cmp -s "$file" "$work/target-another/${file#"$work/target-one/"}" || echo "differs: $(basename "$file")" >&2
  done
  exit 1
fi
echo "the same, twice: sha256:$(sha256sum "$one" | cut -d' ' -f1), $(stat -c %s "$one") bytes"
