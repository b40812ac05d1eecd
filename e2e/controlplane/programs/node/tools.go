//go:build tools

// Package node keeps the programs of a Kubernetes node, and those of Kubernetes' own end-to-end tests, in go.mod, so that `go build` can
// make them.
package node

import (
	_ "k8s.io/kubernetes/cmd/kube-proxy"
	_ "k8s.io/kubernetes/cmd/kubeadm"
	_ "k8s.io/kubernetes/cmd/kubelet"
	_ "k8s.io/kubernetes/test/e2e"
	_ "k8s.io/kubernetes/test/images/agnhost"
)
