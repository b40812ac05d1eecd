#!/usr/bin/env bash
# Makes the cluster that cluster.yaml describes, loads the image, installs the chart and runs its test.
#
# Usage: up.sh ARCHIVE HELM    the image as an archive, and the program helm
#
#   KIND_CLUSTER   the cluster's name (default workloads)
#   NODE_IMAGE     its nodes' image, and so its release (default kind's own)
set -euo pipefail
archive=$(realpath "$1") helm=$2
cd "$(dirname "$0")"
cluster=${KIND_CLUSTER:-workloads}

if kind get clusters 2>/dev/null | grep -qx "$cluster"; then
  echo "The kind cluster $cluster is there already: remove it with make kind-down, or choose another name by KIND_CLUSTER." >&2
  exit 1
fi
kind create cluster --name "$cluster" --config cluster.yaml ${NODE_IMAGE:+--image "$NODE_IMAGE"}
kind load image-archive "$archive" --name "$cluster"
target=(--kube-context "kind-$cluster" --namespace kube-system)
"$helm" install workloads ../chart "${target[@]}" --wait --timeout 5m
"$helm" test workloads "${target[@]}" --logs
echo "kubectl --context kind-$cluster get deployments --all-namespaces"
