//! Real Kubernetes control planes for tests, and the programs under test that run against them.
//!
//! - [`controlplane`] starts etcd, API servers, kube-controller-manager and kube-scheduler on loopback, built from Go modules.
//! - [`process`] runs `workloads-controller-manager` as a child process; [`access`] lets tests read its pages.
//! - [`proxy`] stands between a program and its API server and injects faults.
//! - [`wait`] holds the only way a test waits here: for a condition, with a deadline, and with what was last seen in the error.
//! - [`mod@bench`] measures our program beside kube-controller-manager.
//! - [`differential`] makes scripts to play on two control planes, and compares what came of them.
//! - [`soak`] says what befalls two replicas of ours for minutes, and what must never come of it.
//! - [`node`] adds a real node to a control plane: containerd, kubelet and kube-proxy in namespaces of their own.
//! - [`prometheus`] starts a Prometheus and asks it.
//! - [`upstream`] runs Kubernetes' own integration tests against a controller in another process.
//!
//! No child process outlives the value that owns it, nor the test process, however that one ends (see [`child`]).

pub mod access;
pub mod bench;
pub mod child;
pub mod controlplane;
pub mod differential;
pub mod endpoint;
pub mod node;
pub mod ports;
pub mod process;
pub mod prometheus;
pub mod proxy;
pub mod server;
pub mod soak;
pub mod upstream;
pub mod wait;

pub use controlplane::ControlPlane;
pub use server::Server;
