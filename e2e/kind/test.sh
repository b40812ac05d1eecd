#!/usr/bin/env bash
# What `make kind-up` and `make kind-down` do, by real kind and kubeadm, on nodes that node.sh makes; in between the cluster is used, given
# back to kube-controller-manager and taken again.
#
# Usage: test.sh ARCHIVE    our image as an archive; needs what node.sh needs
#
#   WCM_KEEP   if set, the cluster stays
set -euo pipefail
archive=$(realpath "$1")
cd "$(dirname "$0")"
export KIND_CLUSTER=workloads-test NODE_IMAGE=workloads-kind-node:${K8S_VERSION:-1.37.2} KUBECONFIG
helm=$(../controlplane/build.sh helm)/helm
kubectl=$(../controlplane/build.sh kubectl)
kind=$(./programs.sh)
./node.sh "$NODE_IMAGE"
PATH=$kind:$kubectl:$PATH
docker run --rm --privileged --entrypoint true "$NODE_IMAGE" 2>/dev/null || PATH=$PWD/unprivileged:$PATH

work=$(mktemp -d)
KUBECONFIG=$work/kubeconfig
clean_up() {
  [ -n "${WCM_KEEP:-}" ] || kind delete cluster --name "$KIND_CLUSTER"
  rm -rf "$work"
}
trap clean_up EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }
up() { ../../deploy/kind/up.sh "$archive" "$helm"; }
system() { kubectl --namespace kube-system "$@"; }
rolls() { # rolls DEPLOYMENT NAMESPACE
  kubectl --namespace "$2" rollout restart deployment "$1"
  kubectl --namespace "$2" rollout status deployment "$1" --timeout 2m
}
# Those that are to stay.
dns_pods() {
  system get pods --selector k8s-app=kube-dns \
    --output 'go-template={{range .items}}{{if not .metadata.deletionTimestamp}}{{.metadata.uid}} {{end}}{{end}}'
}
# All who ever wrote the status of CoreDNS.
writers() { system get deployment coredns --show-managed-fields --output 'jsonpath={.metadata.managedFields[?(@.subresource=="status")].manager}'; }
on_control_plane() { docker exec "$KIND_CLUSTER-control-plane" "$@"; }
manifest=/etc/kubernetes/manifests/kube-controller-manager.yaml
away=,-deployment-controller,-replicaset-controller,-statefulset-controller

up
! up 2>"$work/again" || fail "a second cluster of the same name was made"
grep -q "is there already" "$work/again" || fail "the refusal says: $(cat "$work/again")"
told=$(system logs --selector app.kubernetes.io/instance=workloads --tail -1)
case $told in *"Cannot tell"*) fail "kube-controller-manager's flags were not seen: $told" ;; esac
rolls coredns kube-system
rolls local-path-provisioner local-path-storage
on_control_plane grep -q -- "--controllers=\*,bootstrapsigner,tokencleaner$away" $manifest || fail "kube-controller-manager runs the three"
case $(writers) in *kube-controller-manager*) fail "the status was written by $(writers)" ;; esac

before=$(dns_pods)
"$helm" uninstall workloads --namespace kube-system --wait
on_control_plane sed -i "s/$away//" $manifest
system scale deployment coredns --replicas 3
system wait deployment coredns --for 'jsonpath={.status.availableReplicas}=3' --timeout 3m
case $(writers) in *kube-controller-manager*) ;; *) fail "the status was written by $(writers)" ;; esac
for pod in $before; do
  case $(dns_pods) in *"$pod"*) ;; *) fail "the pod $pod was replaced when kube-controller-manager had the three back" ;; esac
done

before=$(dns_pods)
on_control_plane sed -i "s/bootstrapsigner,tokencleaner/&$away/" $manifest
"$helm" install workloads ../../deploy/chart --namespace kube-system --wait --timeout 5m
"$helm" test workloads --namespace kube-system
[ "$(dns_pods)" = "$before" ] || fail "pods were replaced when the chart came back: $before became $(dns_pods)"
rolls coredns kube-system
echo "kind: 1 passed, 0 failed"
