//! Reads StatefulSets from JSON, as far as decisions need them read.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    ClaimTemplate, PodManagementPolicy, RetentionPolicy, RollingUpdate, StatefulSet, StatefulSetSpec, StatefulSetStatus, UpdateStrategy,
    UpdateStrategyType,
};
use crate::error::DecodeError;
use crate::int_or_percent::{IntOrPercent, WireIntOrString};
use crate::intern::Interner;
use crate::json::{WholeMetadata, WireLabels, WireMeta, first_json, null_is_default};
use crate::labels::LabelSet;
use crate::object::{Decode, Format};
use crate::raw;
use crate::selector::{Selector, WireSelector};

/// Reads StatefulSets from JSON, and shares between them what they have in common.
#[derive(Default)]
pub struct StatefulSetDecoder {
    interner: Interner,
}

#[derive(Deserialize)]
struct WireStatefulSet<'a> {
    #[serde(borrow)]
    metadata: WholeMetadata<'a>,
    #[serde(borrow, default, deserialize_with = "null_is_default")]
    spec: WireSpec<'a>,
    #[serde(default, deserialize_with = "null_is_default")]
    status: StatefulSetStatus,
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
    volume_claim_templates: Vec<&'a RawValue>,
    #[serde(borrow, deserialize_with = "null_is_default")]
    service_name: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "null_is_default")]
    pod_management_policy: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "null_is_default")]
    update_strategy: WireUpdateStrategy<'a>,
    revision_history_limit: Option<i32>,
    min_ready_seconds: Option<i32>,
    #[serde(borrow, deserialize_with = "null_is_default")]
    persistent_volume_claim_retention_policy: WireRetentionPolicy<'a>,
    #[serde(deserialize_with = "null_is_default")]
    ordinals: WireOrdinals,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireUpdateStrategy<'a> {
    #[serde(borrow, deserialize_with = "null_is_default")]
    r#type: Cow<'a, str>,
    #[serde(borrow)]
    rolling_update: Option<WireRollingUpdate<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireRollingUpdate<'a> {
    partition: Option<i32>,
    #[serde(borrow)]
    max_unavailable: Option<WireIntOrString<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireRetentionPolicy<'a> {
    #[serde(borrow, deserialize_with = "null_is_default")]
    when_deleted: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "null_is_default")]
    when_scaled: Cow<'a, str>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireOrdinals {
    start: Option<i32>,
}

#[derive(Deserialize)]
struct WireClaimTemplate<'a> {
    #[serde(borrow)]
    metadata: WireMeta<'a>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireMatchLabels {
    match_labels: Option<WireLabels>,
}

// === impl StatefulSetDecoder ===

impl StatefulSetDecoder {
    /// A decoder that shares nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    fn spec(&mut self, wire: WireSpec<'_>) -> Result<StatefulSetSpec, DecodeError> {
        let selector = wire.selector.unwrap_or(RawValue::NULL);
        let match_labels = serde_json::from_str::<Option<WireMatchLabels>>(selector.get())?.unwrap_or_default();
        let selector = serde_json::from_str::<Option<WireSelector>>(selector.get())?;
        Ok(StatefulSetSpec {
            replicas: wire.replicas.unwrap_or(1),
            selector: Selector::interned(selector, &Arc::new(LabelSet::from_iter([("", ""); 0])), &mut self.interner).map_err(Box::new),
            match_labels: crate::json::labels(match_labels.match_labels, &mut self.interner),
            template: self.interner.template(wire.template.unwrap_or(&raw::empty())),
            claim_templates: self.claim_templates(&wire.volume_claim_templates)?,
            service_name: self.interner.string(&wire.service_name),
            pod_management_policy: match &*wire.pod_management_policy {
                "Parallel" => PodManagementPolicy::Parallel,
                _ => PodManagementPolicy::OrderedReady,
            },
            update_strategy: wire.update_strategy.into(),
            revision_history_limit: wire.revision_history_limit,
            min_ready_seconds: wire.min_ready_seconds.unwrap_or(0),
            retention_policy: RetentionPolicy {
                delete_with_set: wire.persistent_volume_claim_retention_policy.when_deleted == "Delete",
                delete_when_scaled: wire.persistent_volume_claim_retention_policy.when_scaled == "Delete",
            },
            start: wire.ordinals.start.unwrap_or(0),
        })
    }

    fn claim_templates(&mut self, wire: &[&RawValue]) -> Result<Arc<[ClaimTemplate]>, DecodeError> {
        let templates = wire.iter().map(|raw| {
            let template: WireClaimTemplate<'_> = serde_json::from_str(raw.get())?;
            Ok(ClaimTemplate { name: self.interner.string(template.metadata.name()), raw: (*raw).to_owned() })
        });
        templates.collect()
    }
}

impl Decode for StatefulSetDecoder {
    type Object = StatefulSet;
    const FORMAT: Format = Format::Json;

    fn decode(&mut self, raw: &[u8]) -> Result<StatefulSet, DecodeError> {
        let wire: WireStatefulSet<'_> = first_json(raw)?;
        let metadata = wire.metadata.text()?;
        let meta: WireMeta<'_> = serde_json::from_str(metadata.get())?;
        Ok(StatefulSet {
            key: meta.key(&mut self.interner)?,
            uid: meta.uid()?,
            resource_version: meta.version(),
            generation: meta.generation.unwrap_or(0),
            deletion: meta.deletion(),
            spec: self.spec(wire.spec)?,
            status: wire.status,
            metadata: Arc::from(metadata),
        })
    }
}

// === impl UpdateStrategy ===

impl From<WireUpdateStrategy<'_>> for UpdateStrategy {
    fn from(wire: WireUpdateStrategy<'_>) -> Self {
        let r#type = match &*wire.r#type {
            "RollingUpdate" => UpdateStrategyType::RollingUpdate,
            "OnDelete" => UpdateStrategyType::OnDelete,
            "Recreate" => UpdateStrategyType::Recreate,
            other => UpdateStrategyType::Unknown(Box::from(other)),
        };
        let rolling_update = wire.rolling_update.map(|rolling| RollingUpdate {
            partition: rolling.partition.unwrap_or(0),
            max_unavailable: rolling.max_unavailable.map(IntOrPercent::from),
        });
        Self { r#type, rolling_update }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DB: &str = r#"{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"db","namespace":"shop","uid":"6d9f8a3e-0000-4000-8000-00000000002a",
        "resourceVersion":"71","generation":3,"newField":1.50,"managedFields":[{}],"annotations":{"note":"a"}},
        "spec":{"replicas":2,"minReadySeconds":5,"revisionHistoryLimit":10,"selector":{"matchLabels":{"app":"db"},"new":1},"serviceName":"dbs",
        "template":{"metadata":{"labels":{"app":"db"}},"spec":{"newer":1.50}},"podManagementPolicy":"Parallel","ordinals":{"start":3},
        "volumeClaimTemplates":[{"kind":"PersistentVolumeClaim","metadata":{"name":"data","creationTimestamp":null},"spec":{"newer":1.50}}],
        "persistentVolumeClaimRetentionPolicy":{"whenDeleted":"Delete","whenScaled":"Retain"},
        "updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"partition":1,"maxUnavailable":"30%"}}},
        "status":{"replicas":1,"readyReplicas":0,"currentReplicas":1,"updatedReplicas":1,"availableReplicas":0,"observedGeneration":2,"collisionCount":0,"currentRevision":"db-a","updateRevision":"db-b",
        "conditions":[{"type":"Progressing","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z","extra":5}],"newCount":9}}"#;

    fn decode(json: &str) -> Result<StatefulSet, DecodeError> {
        StatefulSetDecoder::new().decode(json.as_bytes())
    }

    #[test]
    fn reads_what_decisions_need_and_keeps_the_rest_raw() {
        let db = decode(DB).unwrap();
        assert_eq!((db.key.to_string().as_str(), db.resource_version.0, db.generation, db.spec.replicas), ("shop/db", 71, 3, 2));
        assert_eq!((db.spec.start, db.spec.min_ready_seconds, db.spec.allows_burst(), &*db.spec.service_name), (3, 5, true, "dbs"));
        let rolling_update = Some(RollingUpdate { partition: 1, max_unavailable: Some(IntOrPercent::Percent(30)) });
        assert_eq!(db.spec.update_strategy, UpdateStrategy { r#type: UpdateStrategyType::RollingUpdate, rolling_update });
        assert_eq!(db.spec.retention_policy, RetentionPolicy { delete_with_set: true, delete_when_scaled: false });
        assert_eq!(db.spec.template.raw().get(), r#"{"metadata":{"labels":{"app":"db"}},"spec":{"newer":1.50}}"#);
        let [claim] = &*db.spec.claim_templates else { panic!("{:?}", db.spec.claim_templates) };
        assert_eq!((&*claim.name, db.claim_name(claim, 3).as_str(), db.pod_name(3).as_str()), ("data", "data-db-3", "db-3"));
        assert!(claim.raw.get().contains(r#""newer":1.50"#) && db.metadata.get().contains(r#""newField":1.50"#));
        assert!(!db.metadata.get().contains("managedFields"));
        assert_eq!([2, 3, 4, 5].map(|ordinal| db.spec.wants(ordinal)), [false, true, true, false]);
    }

    #[test]
    fn a_status_goes_back_with_the_fields_it_came_with() {
        let again = serde_json::to_value(decode(DB).unwrap().status).unwrap();
        let before: serde_json::Value = serde_json::from_str(DB).unwrap();
        assert_eq!(again, before["status"]);
    }

    #[test]
    fn odd_objects_are_borne() {
        let bare = r#"{"metadata":{"name":"a","namespace":"b","uid":"6d9f8a3e-0000-4000-8000-00000000002a"},"spec":null,"status":null}"#;
        let db = decode(bare).unwrap();
        assert_eq!((db.spec.selector, db.spec.replicas, db.spec.start), (Ok(Selector::Nothing), 1, 0));
        assert_eq!(db.spec.update_strategy.r#type, UpdateStrategyType::Unknown("".into()));
        let nulls = bare.replace(
            "\"spec\":null",
            r#""spec":{"ordinals":null,"volumeClaimTemplates":null,"updateStrategy":{"type":"OnDelete","rollingUpdate":null},
               "persistentVolumeClaimRetentionPolicy":null,"serviceName":null,"podManagementPolicy":"Later","selector":{"matchLabels":null}}"#,
        );
        let db = decode(&nulls).unwrap();
        assert_eq!(db.spec.update_strategy, UpdateStrategy { r#type: UpdateStrategyType::OnDelete, rolling_update: None });
        assert_eq!(
            (db.spec.pod_management_policy, db.spec.retention_policy),
            (PodManagementPolicy::OrderedReady, RetentionPolicy::default())
        );
    }
}
