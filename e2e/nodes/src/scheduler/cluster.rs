//! What the scheduler knows about room, and its choice: no IO, no clock.

use std::collections::HashMap;
use std::sync::Arc;

use model::Uid;

/// Nodes, and where pods are or are going to be.
#[derive(Debug, Default)]
pub(crate) struct Cluster {
    nodes: Vec<NodeRoom>,
    by_name: HashMap<Arc<str>, usize>,
    placed: HashMap<Uid, Placement>,
    /// Where the search for the next pod begins: a tie goes to whoever has waited longest.
    next: usize,
    /// How often room has been gained.
    gains: u64,
}

#[derive(Debug)]
struct NodeRoom {
    name: Arc<str>,
    /// It takes new pods; never true of a node that was not seen yet, or is gone.
    open: bool,
    capacity: u32,
    pods: u32,
}

#[derive(Clone, Copy, Debug)]
struct Placement {
    node: usize,
    sure: Sure,
}

/// How sure it is that a pod is where it is placed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sure {
    /// We asked for it, and know of no answer.
    Assumed,
    /// The API server or the watch said so.
    Bound,
}

/// What [`Cluster::assume`] comes to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Assumed {
    /// The pod is to go to this node, and counts there from now on.
    Node(Arc<str>),
    /// It is bound already.
    Bound,
    /// There is no room. Room must have been gained since so many gains before it makes sense to ask again.
    NoRoom(u64),
}

// === impl Cluster ===

impl Cluster {
    /// A node as it is now. Whether it gained room.
    pub(crate) fn set_node(&mut self, name: &Arc<str>, open: bool, capacity: u32) -> bool {
        let index = self.index(name);
        let Some(node) = self.nodes.get_mut(index) else { return false };
        let before = node.room();
        (node.open, node.capacity) = (open, capacity);
        let gained = node.room() > before;
        self.gains += u64::from(gained);
        gained
    }

    /// A pod is on a node, whoever put it there.
    pub(crate) fn place(&mut self, pod: Uid, node: &Arc<str>) {
        let index = self.index(node);
        self.put(pod, Some(Placement { node: index, sure: Sure::Bound }));
    }

    /// The API server has answered that a pod is where it was assumed to be.
    pub(crate) fn confirm(&mut self, pod: Uid) {
        if let Some(placement) = self.placed.get_mut(&pod) {
            placement.sure = Sure::Bound;
        }
    }

    /// A pod needs no room any more. Whether it had some.
    pub(crate) fn remove(&mut self, pod: Uid) -> bool {
        self.put(pod, None)
    }

    /// A pod will not come where it was assumed to be, unless the watch has said that it has.
    pub(crate) fn give_up(&mut self, pod: Uid) {
        if self.placed.get(&pod).is_some_and(|placement| placement.sure == Sure::Assumed) {
            self.put(pod, None);
        }
    }

    /// Finds a node for a pod and counts it there. A pod whose binding nobody answered stays with its node.
    pub(crate) fn assume(&mut self, pod: Uid) -> Assumed {
        if let Some(placement) = self.placed.get(&pod) {
            return match self.nodes.get(placement.node) {
                Some(node) if placement.sure == Sure::Assumed => Assumed::Node(Arc::clone(&node.name)),
                _ => Assumed::Bound,
            };
        }
        let rooms = self.nodes.iter().map(|node| (node.room() > 0).then_some(node.pods));
        let Some(index) = least_pods(rooms, self.next) else { return Assumed::NoRoom(self.gains) };
        let Some(node) = self.nodes.get(index) else { return Assumed::NoRoom(self.gains) };
        let name = Arc::clone(&node.name);
        self.next = index + 1;
        self.put(pod, Some(Placement { node: index, sure: Sure::Assumed }));
        Assumed::Node(name)
    }

    /// How often room has been gained.
    pub(crate) fn gains(&self) -> u64 {
        self.gains
    }

    /// Puts a pod somewhere or nowhere. Whether it was somewhere else before.
    fn put(&mut self, pod: Uid, placement: Option<Placement>) -> bool {
        let before = match placement {
            Some(placement) => self.placed.insert(pod, placement),
            None => self.placed.remove(&pod),
        };
        if let Some(node) = placement.and_then(|placement| self.nodes.get_mut(placement.node)) {
            node.pods += 1;
        }
        let Some(before) = before else { return false };
        if let Some(node) = self.nodes.get_mut(before.node) {
            node.pods = node.pods.saturating_sub(1);
        }
        let moved = placement.is_none_or(|placement| placement.node != before.node);
        self.gains += u64::from(moved);
        moved
    }

    /// Pods may be seen before their node: it has no room until it is seen, too.
    fn index(&mut self, name: &Arc<str>) -> usize {
        if let Some(index) = self.by_name.get(name) {
            return *index;
        }
        let index = self.nodes.len();
        self.nodes.push(NodeRoom { name: Arc::clone(name), open: false, capacity: 0, pods: 0 });
        self.by_name.insert(Arc::clone(name), index);
        index
    }
}

// === impl NodeRoom ===

impl NodeRoom {
    fn room(&self) -> u32 {
        if self.open { self.capacity.saturating_sub(self.pods) } else { 0 }
    }
}

/// The index of the smallest number; of several the first at or behind `start`, in a circle. `None` is not to be chosen.
fn least_pods(pods: impl Iterator<Item = Option<u32>> + Clone, start: usize) -> Option<usize> {
    let ahead = pods.clone().enumerate().skip(start);
    let behind = pods.enumerate().take(start);
    // The first of equal ones wins.
    let best = ahead.chain(behind).filter_map(|(index, pods)| pods.map(|pods| (pods, index))).min_by_key(|(pods, _)| *pods);
    best.map(|(_, index)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(capacities: &[u32]) -> Cluster {
        let mut cluster = Cluster::default();
        for (number, capacity) in capacities.iter().enumerate() {
            cluster.set_node(&name(number), true, *capacity);
        }
        cluster
    }

    fn name(number: usize) -> Arc<str> {
        format!("n{number}").into()
    }

    fn assume(cluster: &mut Cluster, pod: u128) -> String {
        match cluster.assume(Uid(pod)) {
            Assumed::Node(node) => node.to_string(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn least_pods_wins_and_ties_go_round() {
        let pods = |list: &[u32]| list.iter().copied().map(Some).collect::<Vec<_>>();
        assert_eq!(least_pods(pods(&[2, 1, 1]).into_iter(), 0), Some(1));
        assert_eq!(least_pods(pods(&[2, 1, 1]).into_iter(), 2), Some(2));
        assert_eq!(least_pods(pods(&[1, 1, 1]).into_iter(), 3), Some(0));
        assert_eq!(least_pods([None, Some(9)].into_iter(), 0), Some(1));
        assert_eq!(least_pods([None, None].into_iter(), 1), None);
        assert_eq!(least_pods(std::iter::empty(), 7), None);
    }

    #[test]
    fn pods_are_spread_until_there_is_no_room() {
        let mut cluster = cluster(&[2, 1, 2]);
        let nodes: Vec<_> = (0..5).map(|pod| assume(&mut cluster, pod)).collect();
        assert_eq!(nodes, ["n0", "n1", "n2", "n0", "n2"]);
        assert_eq!(cluster.assume(Uid(5)), Assumed::NoRoom(3), "each node was a gain");
        assert!(cluster.remove(Uid(1)));
        assert_eq!(assume(&mut cluster, 5), "n1");
    }

    #[test]
    fn cordoned_and_gone_nodes_take_no_pods() {
        let mut cluster = cluster(&[5, 5]);
        assert!(!cluster.set_node(&name(0), false, 5));
        assert_eq!((assume(&mut cluster, 0), assume(&mut cluster, 1)), ("n1".to_owned(), "n1".to_owned()));
        assert!(cluster.set_node(&name(0), true, 5), "uncordoned");
        assert_eq!(assume(&mut cluster, 2), "n0");
        cluster.place(Uid(9), &name(7));
        cluster.set_node(&name(0), false, 0);
        cluster.set_node(&name(1), false, 0);
        assert!(matches!(cluster.assume(Uid(3)), Assumed::NoRoom(_)), "n7 was never seen");
    }

    #[test]
    fn an_assumption_lasts_until_it_is_confirmed_or_given_up() {
        let mut cluster = cluster(&[1, 1]);
        assert_eq!(assume(&mut cluster, 0), "n0");
        assert_eq!(assume(&mut cluster, 0), "n0", "nobody answered: the same again");
        cluster.give_up(Uid(0));
        assert_eq!(assume(&mut cluster, 0), "n1", "refused: another one");
        cluster.confirm(Uid(0));
        assert_eq!(cluster.assume(Uid(0)), Assumed::Bound);
        cluster.give_up(Uid(0));
        assert_eq!(cluster.assume(Uid(0)), Assumed::Bound, "what is certain is not given up");
        assert_eq!(assume(&mut cluster, 1), "n0");
        cluster.place(Uid(1), &name(0));
        assert_eq!(cluster.assume(Uid(1)), Assumed::Bound, "the watch knows");
        assert!(matches!(cluster.assume(Uid(2)), Assumed::NoRoom(_)));
    }

    #[test]
    fn a_pod_that_somebody_else_put_elsewhere_counts_there() {
        let mut cluster = cluster(&[1, 1]);
        assert_eq!(assume(&mut cluster, 0), "n0");
        cluster.place(Uid(0), &name(1));
        assert_eq!(assume(&mut cluster, 1), "n0");
        assert!(matches!(cluster.assume(Uid(2)), Assumed::NoRoom(_)));
    }
}
