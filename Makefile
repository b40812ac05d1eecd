# Each target is one or two commands; CI runs the same ones.
#
#   make demo     a control plane, ten nodes, a Deployment and a StatefulSet, live in the terminal
#   make test     everything that must pass
#   make cluster  a real node with our controllers installed by the Helm chart, to be used with kubectl (as root; make cluster-down removes it)
#   make bench    beside kube-controller-manager, in one run (PODS=100000 for the large one; DEPLOYMENTS=0 and STATEFUL=0 leave parts out)

RELEASES = 1.34.4 1.35.4 1.36.3 1.37.2
K8S_VERSION ?= 1.37.2
WCM_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/workloads-controller-manager
export K8S_VERSION WCM_CACHE

DENY_VERSION = 0.20.2
DENY = $(WCM_CACHE)/tools/bin/cargo-deny

# The image's archive, of this machine's architecture; ARCH=amd64 or ARCH=arm64 for the other.
ARCH ?= $(if $(filter aarch64 arm64,$(shell uname -m)),arm64,amd64)
IMAGE_ARCHIVE = target/image/$(ARCH)/image.tar

.PHONY: cluster cluster-down conformance node image reproducible dashboards kind-up kind-down kind-test docker kind build demo test check unit e2e upstream upstream-list differential soak matrix golden bench controlplane cargo go

build: cargo
	cargo build --release

demo: cargo controlplane
	cargo build
	cargo run --quiet -p e2e --bin demo

test: check unit e2e upstream node

check: cargo $(DENY)
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo clippy --workspace --test node -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items
	$(DENY) check bans licenses sources

# What needs no API server.
unit: cargo go
	cargo test --workspace --exclude e2e
	cd deploy/image && go vet . && go test .
	cd deploy/dashboards && go vet . && go test .

# Against a real control plane.
e2e: cargo controlplane
	cargo build
	cargo test -p e2e --no-fail-fast

# The chart with our image on a real node of one machine. Needs root; NODE=required makes it a failure where there can be no node.
node: cargo controlplane image
	WCM_IMAGE=$(CURDIR)/$(IMAGE_ARCHIVE) cargo test -p e2e --test node

cluster: cargo controlplane image
	WCM_IMAGE=$(CURDIR)/$(IMAGE_ARCHIVE) cargo run --quiet -p e2e --bin cluster up

cluster-down: cargo
	cargo run --quiet -p e2e --bin cluster down

# Kubernetes' conformance tests of the three kinds on such a node; SUBJECT=kube-controller-manager for the controllers there.
conformance: cargo controlplane image
	WCM_IMAGE=$(CURDIR)/$(IMAGE_ARCHIVE) cargo run --quiet -p e2e --bin conformance

# Kubernetes' own integration tests, with our process in place of their controllers; then those that kube-controller-manager passes behind
# the fault proxy, there.
upstream: cargo controlplane
	cargo build
	cargo run --quiet -p e2e --bin upstream-tests
	cargo run --quiet -p e2e --bin upstream-tests -- --faults

# Writes anew which of them kube-controller-manager passes behind the fault proxy, three times out of three.
upstream-list: cargo controlplane
	cargo run --quiet -p e2e --bin upstream-tests -- --reference --faults --record 3

# The part of e2e that plays the same scripts on kube-controller-manager and on ours and compares what came of them; SEEDS=1..100 for
# more, KIND=deployment or statefulset for one kind.
differential: cargo controlplane
	cargo build
	cargo test -p e2e --test differential

# The part of e2e in which two replicas of ours live under random scripts, faults and changes of hands; of these so many minutes. SEEDS=17 or
# 1..5 for other schedules.
MINUTES ?= 3
soak: export MINUTES := $(MINUTES)
soak: cargo controlplane
	cargo build
	cargo test -p e2e --test soak

# Every pinned release's own controllers hand over and take back, and do what the golden files say.
matrix: cargo go
	cargo build
	set -e; for release in $(RELEASES); do \
	  export K8S_VERSION=$$release; e2e/controlplane/build.sh >/dev/null; cargo test -p e2e --test deployment --test statefulset -- hands; \
	  cargo test -p e2e --test golden; \
	done

# Writes anew what every pinned release's own controller makes of awkward templates.
golden: cargo go
	set -e; for release in $(RELEASES); do \
	  export K8S_VERSION=$$release; e2e/controlplane/build.sh >/dev/null; GOLDEN=write cargo test -p e2e --test golden; \
	done

bench: cargo controlplane
	cargo build --release
	cargo run --quiet --release -p e2e --bin bench

# The image, without a container engine, in target/image: an OCI layout, an archive for ctr, docker and kind, the bill of materials.
# ARCH for the other architecture, IMAGE and TAG for another name than localhost/workloads-controller-manager:RELEASE.
image: cargo go
	deploy/image/image.sh $(ARCH)

# HEAD, built twice in different folders, gives the same program to the byte; two builds of about 8 minutes on two cores.
reproducible: cargo
	deploy/image/twice.sh

# Writes the Grafana dashboard anew, from deploy/dashboards/panels.go; GOLDEN=write cargo test -p e2e --test chart then copies it to the chart.
dashboards: go
	cd deploy/dashboards && go run . >.new && mv .new workloads-controller-manager.json

# A kind cluster whose workloads run here, named by KIND_CLUSTER; NODE_IMAGE=kindest/node:... for another release than kind's own.
kind-up: docker kind go image
	deploy/kind/up.sh $(IMAGE_ARCHIVE) "$$(e2e/controlplane/build.sh helm)/helm"

kind-down: kind
	kind delete cluster --name $${KIND_CLUSTER:-workloads}

# Both, with the cluster used in between, on nodes made here of Debian packages and Go modules. Needs root, Docker and mmdebstrap.
kind-test: docker go image
	e2e/kind/test.sh $(IMAGE_ARCHIVE)

controlplane: go
	e2e/controlplane/build.sh >/dev/null

$(DENY): | cargo
	cargo install --locked --debug --root $(WCM_CACHE)/tools cargo-deny@$(DENY_VERSION)

cargo:
	@command -v cargo >/dev/null || { echo "Rust is needed: install it with rustup (https://rustup.rs); rust-toolchain.toml picks the version." >&2; exit 1; }

go:
	@command -v go >/dev/null || { echo "Go is needed to build the control plane: install Go 1.26 or newer (https://go.dev/dl/) and put it on PATH." >&2; exit 1; }

docker:
	@docker version >/dev/null 2>&1 || { echo "A running Docker is needed for a kind cluster: https://docs.docker.com/engine/install/. make cluster needs none." >&2; exit 1; }

kind:
	@command -v kind >/dev/null || { echo "kind is needed: https://kind.sigs.k8s.io/docs/user/quick-start/#installation. make cluster needs none." >&2; exit 1; }
