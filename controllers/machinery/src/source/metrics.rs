//! What sources count.

use model::plan::Resource;
use prometheus::{IntCounter, IntCounterVec, Opts, Registry};

use crate::error::Error;

/// The metrics of all sources of the process.
#[derive(Clone, Debug)]
pub struct SourceMetrics {
    lists: IntCounterVec,
    watches: IntCounterVec,
    undecodable: IntCounterVec,
}

/// One source's share, there from the start with zeroes.
#[derive(Clone, Debug)]
pub(super) struct Counters {
    pub(super) lists: IntCounter,
    pub(super) watches: IntCounter,
    pub(super) undecodable: IntCounter,
}

// === impl SourceMetrics ===

impl SourceMetrics {
    /// Registers them.
    pub fn register(registry: &Registry) -> Result<Self, Error> {
        let counter = |name: &str, help: &str| -> Result<IntCounterVec, Error> {
            let vec = IntCounterVec::new(Opts::new(name, help), &["group", "resource"])?;
            registry.register(Box::new(vec.clone()))?;
            Ok(vec)
        };
        Ok(Self {
            lists: counter("reflector_lists_total", "Number of lists begun, the first one and every relist.")?,
            watches: counter("reflector_watches_total", "Number of watches opened, streaming lists included.")?,
            undecodable: counter(
                "informer_undecodable_objects_total",
                "Number of objects that could not be read twice and are left out until they change.",
            )?,
        })
    }

    pub(super) fn of(&self, resource: &Resource) -> Counters {
        let labels = [resource.group, resource.plural];
        Counters {
            lists: self.lists.with_label_values(&labels),
            watches: self.watches.with_label_values(&labels),
            undecodable: self.undecodable.with_label_values(&labels),
        }
    }
}
