//! e2e/nodes
