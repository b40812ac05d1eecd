//! What a sync did.

use std::sync::LazyLock;

use model::plan::{Action, Conclusion, NewName, Question, Step};
use serde_json::{Value, json};
use statefulset::Sameness;

use super::{VERSIONS, name_of};

/// What a sync did, in its order.
#[derive(Debug, Default)]
pub struct Did {
    /// What was sent, in short.
    pub actions: Vec<String>,
    /// The same by batches: what is in one is under way at the same time.
    pub batches: Vec<Vec<String>>,
    /// What was planned.
    pub steps: Vec<Step>,
    pub asked: Vec<Question>,
    /// `Normal SuccessfulCreate: Create Pod …`
    pub events: Vec<String>,
    pub conclusion: Conclusion,
    pub sameness: Option<Sameness>,
}

// === impl Did ===

impl Did {
    /// The text of what was to be created under that name.
    pub fn created_text(&self, name: &str) -> String {
        let mut bodies = self.steps.iter().filter_map(|step| match &step.action {
            Action::Create(create) if create.body.name.as_str() == name => Some(create.body.with_name(name)),
            _ => None,
        });
        bodies.next().unwrap_or_else(|| panic!("no create of {name}: {self:?}"))
    }

    /// What was to be created under that name.
    pub fn created(&self, name: &str) -> Value {
        serde_json::from_str(&self.created_text(name)).unwrap()
    }

    /// The revision that a new pod names.
    pub fn revision_of(&self, pod: &str) -> String {
        let label = self.created(pod)["metadata"]["labels"]["controller-revision-hash"].clone();
        short(label.as_str().expect("a revision"))
    }

    pub fn status(&self) -> Value {
        serde_json::from_str(self.conclusion.status.as_ref().expect("a status").status.get()).unwrap()
    }

    /// replicas, readyReplicas, availableReplicas, currentReplicas, updatedReplicas.
    pub fn counts(&self) -> [i64; 5] {
        let status = self.status();
        ["replicas", "readyReplicas", "availableReplicas", "currentReplicas", "updatedReplicas"]
            .map(|field| status[field].as_i64().unwrap_or_else(|| panic!("no {field}: {status}")))
    }

    /// The current and the update revision, in short.
    pub fn revisions(&self) -> [String; 2] {
        let status = self.status();
        ["currentRevision", "updateRevision"].map(|field| short(status[field].as_str().expect("a revision")))
    }

    /// A condition's status, reason and message; nulls if there is none.
    pub fn said(&self, r#type: &str) -> Value {
        let status = self.status();
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        let condition = conditions.into_iter().find(|condition| condition["type"] == r#type).unwrap_or(Value::Null);
        json!([condition["status"], condition["reason"], condition["message"]])
    }

    pub fn error(&self) -> Option<&str> {
        self.conclusion.error.as_ref().map(|error| error.0.as_str())
    }

    /// After how many seconds it is to be looked at again.
    pub fn requeue_after(&self) -> Option<u64> {
        self.conclusion.requeue_after.map(|delay| delay.as_secs())
    }

    /// Neither sent anything nor failed.
    pub fn did_nothing(&self) -> bool {
        self.actions.is_empty() && self.conclusion.error.is_none()
    }
}

/// `create db-0`, `delete db-0`, `label db-0`, `adopt db-0`, `release db-0`, `create data-db-0`, `reown data-db-0 to …`, `create revision 2`,
/// `delete revision 2`, `adopt revision 2`, `raise revision 2 to 7`.
pub fn describe(action: &Action) -> String {
    let name = short(name_in(action));
    match action {
        Action::Create(_) => format!("create {name}"),
        Action::Delete(_) => format!("delete {name}"),
        Action::Own(own) => format!("{:?} {name}", own.change).to_lowercase(),
        Action::Patch(patch) => match patch.body.get("revision") {
            Some(number) => format!("raise {name} to {number}"),
            None => format!("label {name}"),
        },
        Action::Reown(reown) => match &reown.add {
            Some(owner) => format!("reown {name} to {} {}", owner.resource.kind, owner.name),
            None => format!("reown {name} to nobody"),
        },
        Action::Edit(_) => panic!("nothing is edited: {action:?}"),
    }
}

fn name_in(action: &Action) -> &str {
    match action {
        Action::Create(create) => match &create.body.name {
            NewName::Given(name) => name,
            NewName::Generated(_) => panic!("names are given: {action:?}"),
        },
        _ => &action.target().expect("a target").key.name,
    }
}

/// A revision by the version of its template, where it is the first of that; everything else by its name.
pub fn short(name: &str) -> String {
    static NAMES: LazyLock<Vec<(u32, String)>> = LazyLock::new(|| VERSIONS.map(|version| (version, name_of(version))).collect());
    let version = NAMES.iter().find(|(_, of)| of == name).map(|(version, _)| version);
    version.map_or_else(|| name.to_owned(), |version| format!("revision {version}"))
}
