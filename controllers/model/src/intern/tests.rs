//! What is shared, and what is forgotten.

use super::*;
use proptest::prelude::*;

#[test]
fn equal_things_are_one() {
    let mut interner = Interner::new();
    assert!(Arc::ptr_eq(&interner.string("default"), &interner.string("default")));
    let one = interner.label_set(&mut vec![("b", "2"), ("a", "0"), ("a", "1")]);
    let two = interner.label_set(&mut vec![("a", "1"), ("b", "2")]);
    let other = interner.label_set(&mut vec![("a", "1"), ("b", "3")]);
    assert!(Arc::ptr_eq(&one, &two));
    assert!(Arc::ptr_eq(one.keys(), other.keys()));
    assert_eq!(one.get("a"), Some("1"));
    let owner = interner.owner(OwnerKind::ReplicaSet, "web", Uid(1));
    assert!(Arc::ptr_eq(&owner, &interner.owner(OwnerKind::ReplicaSet, "web", Uid(1))));
    assert!(!Arc::ptr_eq(&owner, &interner.owner(OwnerKind::StatefulSet, "web", Uid(1))));
}

#[test]
fn characters_that_cannot_be_stored_make_no_second_entry() {
    let mut interner = Interner::new();
    let one = interner.label_set(&mut vec![("a", "1\0x")]);
    assert!(Arc::ptr_eq(&one, &interner.label_set(&mut vec![("a", "1\u{1}y")])));
    assert_eq!(one.get("a"), Some("1"));
}

#[test]
fn conventional_claims_are_shared_by_a_set() {
    let mut interner = Interner::new();
    let zero = interner.claims("db-0", &mut vec![("log", "log-db-0"), ("data", "data-db-0")]).unwrap();
    let one = interner.claims("db-1", &mut vec![("data", "data-db-1"), ("log", "log-db-1")]).unwrap();
    assert!(Arc::ptr_eq(&zero, &one));
    let other = interner.claims("db-01", &mut vec![("data", "data-db-1")]).unwrap();
    assert_eq!(*other, [Claim::Literal { volume: "data".into(), claim: "data-db-1".into() }]);
    assert_eq!(interner.claims("db-2", &mut vec![]), None);
}

#[derive(Clone, Debug)]
enum Step {
    Labels(u16),
    Owner(u16),
    Claims(u16),
    Drop(u16),
    DropAll,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        20 => any::<u16>().prop_map(Step::Labels),
        5 => any::<u16>().prop_map(Step::Owner),
        5 => any::<u16>().prop_map(Step::Claims),
        15 => any::<u16>().prop_map(Step::Drop),
        1 => Just(Step::DropAll),
    ];
    proptest::collection::vec(step, 0..1000)
}

type Held = (Arc<LabelSet>, Arc<OwnerRef>, Option<Arc<[Claim]>>);

/// Distinct entries that are still held, and what they hold in turn.
fn live(held: &[Held]) -> usize {
    let mut seen = std::collections::HashSet::new();
    for (labels, owner, claims) in held {
        seen.insert(Arc::as_ptr(labels).cast::<u8>());
        seen.insert(Arc::as_ptr(labels.keys()).cast::<u8>());
        seen.extend(labels.keys().iter().map(|key| Arc::as_ptr(key).cast::<u8>()));
        seen.insert(Arc::as_ptr(owner).cast::<u8>());
        seen.extend(claims.iter().map(|claims| Arc::as_ptr(claims).cast::<u8>()));
        seen.extend(claims.iter().flat_map(|claims| claims.iter()).map(|claim| match claim {
            Claim::Conventional(volume) | Claim::Literal { volume, .. } => Arc::as_ptr(volume).cast::<u8>(),
        }));
    }
    seen.len()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn what_nobody_holds_is_forgotten(steps in steps()) {
        let bound = |live: usize| live + live / 8 + SMALL + 8;
        let mut interner = Interner::new();
        let (mut held, mut most) = (Vec::new(), 0);
        for step in steps {
            let (labels, owner, claims) = match step {
                Step::Labels(n) => (n, 0, 0),
                Step::Owner(n) => (0, n, 0),
                Step::Claims(n) => (0, 0, n),
                Step::Drop(n) => {
                    if !held.is_empty() {
                        held.swap_remove(usize::from(n) % held.len());
                    }
                    continue;
                }
                Step::DropAll => {
                    held.clear();
                    continue;
                }
            };
            let (key, value, claim) = (format!("key-{}", labels % 500), labels.to_string(), format!("claim-{claims}"));
            held.push((
                interner.label_set(&mut vec![(key.as_str(), value.as_str())]),
                interner.owner(OwnerKind::ReplicaSet, "web", Uid(owner.into())),
                interner.claims("pod", &mut vec![(claim.as_str(), claim.as_str())]),
            ));
            most = most.max(live(&held));
            prop_assert!(interner.interned().total() <= bound(most));
        }
        // Sweeps come with new entries: after enough of them there is no trace of the past.
        for n in 0..2 * interner.interned().total() + 2 * SMALL {
            interner.string(&n.to_string());
        }
        prop_assert!(interner.interned().total() <= bound(live(&held)), "{:?} for {}", interner.interned(), live(&held));
        drop(held);
        for n in 0..2 * interner.interned().total() + 2 * SMALL {
            interner.string(&n.to_string());
        }
        prop_assert!(interner.interned().total() <= bound(0));
        prop_assert!(interner.label_sets.0.allocation_size() + interner.owners.0.allocation_size() == 0);
    }
}
