//! What a sync did.

use model::ResourceVersion;
use model::plan::{Action, Conclusion, Edit, NewName, Patch, Question, Step};
use serde_json::{Value, json};

/// What a sync did, in its order.
#[derive(Debug, Default)]
pub struct Did {
    /// What was sent, in short.
    pub actions: Vec<String>,
    /// What was planned.
    pub steps: Vec<Step>,
    pub asked: Vec<Question>,
    pub lookups: usize,
    /// `Normal ScalingReplicaSet: Scaled …`
    pub events: Vec<String>,
    pub conclusion: Conclusion,
}

// === impl Did ===

impl Did {
    /// The sizes that were asked for.
    pub fn sizes(&self) -> Vec<(&str, i64)> {
        let sized = |patch: &'_ Patch| patch.body["spec"].get("replicas").and_then(Value::as_i64);
        self.patches().filter_map(|patch| Some((&*patch.target.key.name, sized(patch)?))).collect()
    }

    /// The size that a ReplicaSet was given last.
    pub fn size(&self, name: &str) -> Option<i64> {
        self.sizes().into_iter().rev().find(|(of, _)| *of == name).map(|(_, size)| size)
    }

    pub fn patches(&self) -> impl Iterator<Item = &Patch> {
        self.steps.iter().filter_map(|step| if let Action::Patch(patch) = &step.action { Some(patch) } else { None })
    }

    /// The bodies of the patches of one ReplicaSet.
    pub fn bodies(&self, name: &str) -> Vec<&Value> {
        self.patches().filter(|patch| &*patch.target.key.name == name).map(|patch| &patch.body).collect()
    }

    /// The versions that its patches ask for.
    pub fn versions(&self, name: &str) -> Vec<ResourceVersion> {
        self.patches().filter(|patch| &*patch.target.key.name == name).map(|patch| patch.target.resource_version).collect()
    }

    /// The text of the one ReplicaSet that was created.
    pub fn created_text(&self) -> String {
        let mut texts = self.steps.iter().filter_map(|step| match &step.action {
            Action::Create(create) => Some(create.body.with_name(given_name(&step.action))),
            _ => None,
        });
        let text = texts.next().expect("a create");
        assert!(texts.next().is_none(), "one create");
        text
    }

    /// The one ReplicaSet that was created.
    pub fn created(&self) -> Value {
        serde_json::from_str(&self.created_text()).unwrap()
    }

    /// The one edit of the Deployment.
    pub fn edit(&self) -> &Edit {
        let mut edits = self.steps.iter().filter_map(|step| if let Action::Edit(edit) = &step.action { Some(edit) } else { None });
        let edit = edits.next().expect("an edit");
        assert!(edits.next().is_none(), "one edit");
        edit
    }

    /// What the edit puts at a path.
    pub fn edited(&self, path: &[&str]) -> Option<Value> {
        let field = self.edit().fields.iter().find(|(at, _)| *at == path);
        field.map(|(_, value)| serde_json::from_str(value.get()).unwrap())
    }

    pub fn status(&self) -> Value {
        serde_json::from_str(self.conclusion.status.as_ref().expect("a status").status.get()).unwrap()
    }

    /// The annotations that the status write carries.
    pub fn annotations(&self) -> Value {
        let metadata = self.conclusion.status.as_ref().expect("a status").metadata.as_ref().expect("the Deployment's metadata");
        serde_json::from_str::<Value>(metadata.get()).unwrap()["annotations"].clone()
    }

    pub fn revision(&self) -> Value {
        self.annotations()["deployment.kubernetes.io/revision"].clone()
    }

    /// A condition of the status that was written; null if it has none of that type.
    pub fn condition(&self, r#type: &str) -> Value {
        let status = self.status();
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|condition| condition["type"] == r#type).unwrap_or(Value::Null)
    }

    /// A condition's status, reason and message.
    pub fn said(&self, r#type: &str) -> Value {
        let condition = self.condition(r#type);
        json!([condition["status"], condition["reason"], condition["message"]])
    }

    pub fn error(&self) -> Option<&str> {
        self.conclusion.error.as_ref().map(|error| error.0.as_str())
    }

    /// Neither wrote anything nor failed.
    pub fn did_nothing(&self) -> bool {
        self.actions.is_empty() && self.conclusion.status.is_none() && self.conclusion.error.is_none()
    }
}

/// A new ReplicaSet's name.
pub fn given_name(action: &Action) -> &str {
    match action {
        Action::Create(create) => match &create.body.name {
            NewName::Given(name) => name,
            NewName::Generated(_) => panic!("a ReplicaSet's name is given"),
        },
        _ => panic!("no create: {action:?}"),
    }
}
