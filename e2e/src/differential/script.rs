//! The words of a script. They are plain data, and name nothing by a name that a controller chose.

use serde_json::Value;

use super::snapshot::Kind;

/// What one seed stands for.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    /// It makes the same script every time.
    pub seed: u64,
    /// In this order, with a barrier after each.
    pub steps: Vec<Step>,
}

/// A write, and what the nodes do once both sides have settled.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// For people.
    pub text: String,
    /// What a user does.
    pub write: Write,
    /// What the nodes do then.
    pub nodes: Nodes,
}

/// A user's request. One whose target is not there does nothing: it is so on both sides.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// Creates an object.
    Create(Kind, Value),
    /// A merge patch of objects, or of a subresource of theirs (`scale`, `status`).
    Patch(Target, Option<&'static str>, Value),
    /// Deletes objects.
    Delete(Target, Cascade),
    /// As `kubectl rollout undo` does: the template and the annotations of the Deployment's ReplicaSet with the n-th highest revision become the
    /// Deployment's.
    Undo(String, usize),
}

/// What becomes of the objects that a deleted one owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cascade {
    /// They are deleted after it.
    Background,
    /// They are deleted before it.
    Foreground,
    /// They stay.
    Orphan,
}

impl Cascade {
    /// As `propagationPolicy` has it.
    pub fn policy(self) -> &'static str {
        match self {
            Self::Background => "Background",
            Self::Foreground => "Foreground",
            Self::Orphan => "Orphan",
        }
    }
}

/// Which objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// One that the script has named.
    Named(Kind, String),
    /// The ReplicaSet of a Deployment with the n-th highest revision; 0 is the highest.
    SetOf(String, usize),
    /// All objects of a kind with this label.
    Labelled(Kind, &'static str, String),
    /// Pods of the ReplicaSet of a Deployment with the n-th highest revision.
    Pods(Pods),
    /// The pod of this name, if its StatefulSet replaces it at once when it ends: in order, none before it may be waited for.
    Replaceable(String),
    /// The claim of this name, if the pod of that name runs: one that does not gets its claim back.
    ClaimOf(String, String),
}

/// So many pods of one ReplicaSet in one state. Which of them does not matter: they are alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pods {
    /// The Deployment's name.
    pub deployment: String,
    /// Which ReplicaSet of it; 0 is the one with the highest revision.
    pub back: usize,
    /// Their state.
    pub state: PodState,
    /// At most so many.
    pub count: usize,
}

/// Pods of one state and one ReplicaSet are alike: a controller that chooses among them has the same choice on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodState {
    /// Active and ready.
    Ready,
    /// Active and not ready.
    NotReady,
    /// Phase Failed.
    Failed,
}

/// What the nodes do after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nodes {
    /// Nothing.
    Idle,
    /// So many pods of each ReplicaSet and StatefulSet become ready.
    Ready(usize),
    /// Pods that are being deleted end.
    Release,
    /// Whatever nodes can do, with a barrier after each round, until there is nothing left for them to do.
    All,
}

impl Nodes {
    /// Whether there may be more to do after the next barrier.
    pub fn is_repeated(self) -> bool {
        self == Self::All
    }
}

/// Nodes cannot pull an image with this in its name: its pods never become ready.
pub const BAD_IMAGE: &str = "/broken:";
