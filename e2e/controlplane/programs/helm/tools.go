//go:build tools

// Package helm keeps the command in go.mod, so that `go build` can make it.
package helm

import _ "helm.sh/helm/v4/cmd/helm"
