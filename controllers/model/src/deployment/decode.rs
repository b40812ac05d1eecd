//! Reads Deployments from JSON, as far as decisions need them read.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Deployment, DeploymentSpec, DeploymentStatus, Strategy};
use crate::annotations::{REVISION, ROLLBACK_TO};
use crate::error::DecodeError;
use crate::int_or_percent::{IntOrPercent, WireIntOrString};
use crate::intern::Interner;
use crate::json::{WholeMetadata, WireMeta, annotation, copied_annotations, first_json, null_is_default};
use crate::labels::LabelSet;
use crate::object::{Decode, Format};
use crate::raw;
use crate::selector::{Selector, WireSelector};

/// Reads Deployments from JSON, and shares between them what they have in common.
#[derive(Default)]
pub struct DeploymentDecoder {
    interner: Interner,
}

#[derive(Deserialize)]
struct WireDeployment<'a> {
    #[serde(borrow)]
    metadata: WholeMetadata<'a>,
    #[serde(borrow, default, deserialize_with = "null_is_default")]
    spec: WireSpec<'a>,
    #[serde(default, deserialize_with = "null_is_default")]
    status: DeploymentStatus,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireSpec<'a> {
    replicas: Option<i32>,
    #[serde(borrow)]
    selector: Option<&'a RawValue>,
    #[serde(borrow)]
    template: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "null_is_default")]
    strategy: WireStrategy<'a>,
    min_ready_seconds: Option<i32>,
    revision_history_limit: Option<i32>,
    paused: Option<bool>,
    progress_deadline_seconds: Option<i32>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireStrategy<'a> {
    #[serde(borrow, deserialize_with = "null_is_default")]
    r#type: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "null_is_default")]
    rolling_update: WireRollingUpdate<'a>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireRollingUpdate<'a> {
    #[serde(borrow)]
    max_surge: Option<WireIntOrString<'a>>,
    #[serde(borrow)]
    max_unavailable: Option<WireIntOrString<'a>>,
}

// === impl DeploymentDecoder ===

impl DeploymentDecoder {
    /// A decoder that shares nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    fn spec(&mut self, wire: WireSpec<'_>) -> Result<DeploymentSpec, DecodeError> {
        let selector = wire.selector.map(|selector| serde_json::from_str::<Option<WireSelector>>(selector.get())).transpose()?.flatten();
        Ok(DeploymentSpec {
            replicas: wire.replicas.unwrap_or(1),
            selector: Selector::interned(selector, &Arc::new(LabelSet::from_iter([("", ""); 0])), &mut self.interner).map_err(Box::new),
            raw_selector: wire.selector.unwrap_or(RawValue::NULL).to_owned(),
            template: self.interner.template(wire.template.unwrap_or(&raw::empty())),
            strategy: wire.strategy.into(),
            min_ready_seconds: wire.min_ready_seconds.unwrap_or(0),
            revision_history_limit: wire.revision_history_limit,
            paused: wire.paused.unwrap_or(false),
            progress_deadline_seconds: wire.progress_deadline_seconds,
        })
    }
}

impl Decode for DeploymentDecoder {
    type Object = Deployment;
    const FORMAT: Format = Format::Json;

    fn decode(&mut self, raw: &[u8]) -> Result<Deployment, DecodeError> {
        let wire: WireDeployment<'_> = first_json(raw)?;
        let metadata = wire.metadata.text()?;
        let meta: WireMeta<'_> = serde_json::from_str(metadata.get())?;
        let (key, uid) = (meta.key(&mut self.interner)?, meta.uid()?);
        let (resource_version, deletion) = (meta.version(), meta.deletion());
        let annotations = meta.annotations.unwrap_or_default();
        Ok(Deployment {
            key,
            uid,
            resource_version,
            generation: meta.generation.unwrap_or(0),
            deletion,
            annotations: copied_annotations(&annotations, &mut self.interner),
            revision: annotation(&annotations, REVISION),
            rollback_to: annotation(&annotations, ROLLBACK_TO),
            spec: self.spec(wire.spec)?,
            status: wire.status,
            metadata: Arc::from(metadata),
        })
    }
}

// === impl Strategy ===

impl From<WireStrategy<'_>> for Strategy {
    fn from(wire: WireStrategy<'_>) -> Self {
        match &*wire.r#type {
            "RollingUpdate" => Self::RollingUpdate {
                max_surge: wire.rolling_update.max_surge.map_or(IntOrPercent::Int(0), Into::into),
                max_unavailable: wire.rolling_update.max_unavailable.map_or(IntOrPercent::Int(0), Into::into),
            },
            "Recreate" => Self::Recreate,
            other => Self::Unknown(Box::from(other)),
        }
    }
}
