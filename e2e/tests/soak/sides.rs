//! What the view of a namespace, which the differential tests have too, is a view of.

use std::rc::Rc;

use e2e::controlplane::ControlPlane;

use crate::cache::Cache;

/// A control plane, seen by its first API server.
pub(crate) struct Side {
    pub(crate) name: &'static str,
    pub(crate) plane: ControlPlane,
    pub(crate) cache: Rc<Cache>,
}
