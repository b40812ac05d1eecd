//! Why an object is as it is: pages that tell it, and a command that asks for them.

pub(crate) mod command;
mod print;
#[cfg(test)]
mod tests;
mod told;

use std::sync::Arc;

use http::StatusCode;
use machinery::explain::Explain;
use model::ObjectKey;
use model::plan::Resource;
use serde_json::json;

use crate::serve::answer;
use crate::serve::pages::{Listed, Pages};

pub(crate) use self::told::Stance;
use self::told::{Told, ToldList, ToldSummary};

/// Below it: `/explain/<plural>/<namespace>/<name>`.
pub(crate) const PATH: &str = "/explain/";

/// The controllers that can be asked.
#[derive(Clone, Default)]
pub(crate) struct Witnesses {
    controllers: Vec<Arc<dyn Explain>>,
}

// === impl Witnesses ===

impl Witnesses {
    /// One more controller.
    pub(crate) fn add(&mut self, controller: Arc<dyn Explain>) {
        self.controllers.push(controller);
    }

    /// Adds the pages.
    pub(crate) fn install(self, pages: &Pages, stance: impl Fn(&Resource) -> Stance + Send + Sync + 'static) {
        pages.add(PATH, Listed::Yes, move |asked| match self.find(&asked.path) {
            Ok(Some((controller, key))) => controller.explain(&key).map_or_else(
                || {
                    let plural = controller.resource().plural;
                    answer::error(StatusCode::NOT_FOUND, &format!("{plural} {:?} not found in namespace {:?}", key.name, key.namespace))
                },
                |explanation| answer::json_page(&json!(Told::of(&explanation, stance(controller.resource())))),
            ),
            Ok(None) => answer::json_page(&json!(ToldList { items: self.open() })),
            Err(problem) => answer::error(StatusCode::NOT_FOUND, &problem),
        });
    }

    /// What a sync of that object would do now.
    pub(crate) fn next_steps(&self, resource: &Resource, key: &ObjectKey) -> Vec<String> {
        let controller = self.controllers.iter().find(|controller| controller.resource() == resource);
        let explanation = controller.and_then(|controller| controller.explain(key));
        explanation.map_or_else(Vec::new, |explanation| Told::of(&explanation, Stance::Observes).next_steps)
    }

    /// The controller and the object that a path names; `None` for all of them.
    fn find(&self, path: &str) -> Result<Option<(&dyn Explain, ObjectKey)>, String> {
        let parts: Vec<_> = path.strip_prefix(PATH).unwrap_or_default().split('/').filter(|part| !part.is_empty()).collect();
        match parts.as_slice() {
            [] => Ok(None),
            [plural, namespace, name] => {
                let controller = self.controllers.iter().find(|controller| controller.resource().plural == *plural);
                let known = || self.controllers.iter().map(|controller| controller.resource().plural).collect::<Vec<_>>().join(", ");
                let controller = controller.ok_or_else(|| format!("no controller here explains {plural:?}; there are: {}", known()))?;
                Ok(Some((&**controller, ObjectKey::new(*namespace, *name))))
            }
            _ => Err(format!("write {PATH}<resource>/<namespace>/<name>")),
        }
    }

    /// Every object whose last sync left something open.
    fn open(&self) -> Vec<ToldSummary> {
        let all = self.controllers.iter().flat_map(|controller| {
            let kind = controller.resource().kind;
            controller.open().into_iter().map(move |(key, record)| told::summary(kind, &key, &record))
        });
        all.collect()
    }
}
