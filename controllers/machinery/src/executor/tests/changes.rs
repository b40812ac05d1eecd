//! Changes of objects that are there: patches, edits of what a live read has, given names, live questions.

use model::plan::{Edit, NewName, Owner, PODS, Patch, Reown, STATEFULSETS, Task};

use super::*;

fn raw(json: &Value) -> Box<RawValue> {
    RawValue::from_string(json.to_string()).unwrap()
}

fn one(action: Action) -> Plan {
    Plan::one_stage(vec![Step { action, reason: Rule::NewReplicaSetSize }], Mode::OneByOne, OnError::SkipRest)
}

fn live(version: &str) -> Value {
    json!({
        "metadata": {"uid": OWNER.to_string(), "resourceVersion": version, "newer": 1.5, "managedFields": []},
        "spec": {"replicas": 1, "template": {}}, "status": {"replicas": 1},
    })
}

fn edit() -> Plan {
    let fields: Vec<(&'static [&'static str], _)> = vec![(&["spec", "template"], raw(&json!({"new": true})))];
    one(Action::Edit(Edit { target: subject(), fields, news: None }))
}

fn named(name: &str) -> Plan {
    let Step { action: Action::Create(mut create), .. } = create() else { unreachable!() };
    let body = NewObject { name: NewName::Given(Arc::from(name)), ..(*create.body).clone() };
    create.body = Arc::new(body);
    one(Action::Create(create))
}

#[tokio::test(start_paused = true)]
async fn a_patch_holds_only_at_the_version_it_was_decided_from() {
    let fixture = fixture([]);
    for body in [json!({"spec": {"replicas": 3}}), json!({"metadata": {"annotations": {"a": "b"}}})] {
        let done = execute(&fixture, &one(Action::Patch(Patch { target: subject(), body, news: None }))).await;
        assert_eq!(done[0][0], Outcome::Done { name: Arc::from("web"), resource_version: ResourceVersion(50) });
    }
    let seen = fixture.server.requests("PATCH");
    assert_eq!(seen[0].path, "/apis/apps/v1/namespaces/shop/replicasets/web");
    assert_eq!(seen[0].body, json!({"metadata": {"resourceVersion": "5"}, "spec": {"replicas": 3}}));
    assert_eq!(seen[1].body, json!({"metadata": {"resourceVersion": "5", "annotations": {"a": "b"}}}));
}

#[tokio::test(start_paused = true)]
async fn an_edit_keeps_every_other_field() {
    let fixture = fixture([(200, live("5"))]);
    assert!(execute(&fixture, &edit()).await[0][0].is_done());
    let puts = fixture.server.requests("PUT");
    assert_eq!(puts[0].path, "/apis/apps/v1/namespaces/shop/replicasets/web");
    let mut expected = live("5");
    expected["metadata"].as_object_mut().unwrap().remove("managedFields");
    expected["spec"]["template"] = json!({"new": true});
    assert_eq!(puts[0].body, expected);
}

#[tokio::test(start_paused = true)]
async fn an_edit_of_another_version_is_a_conflict_and_one_that_could_not_be_read_has_failed() {
    let fixture = fixture([(200, live("6")), status(403, "Forbidden")]);
    assert!(matches!(&execute(&fixture, &edit()).await[0][0], Outcome::Failed(error) if error.is_conflict()));
    assert!(matches!(&execute(&fixture, &edit()).await[0][0], Outcome::Failed(error) if error.code == 403));
    assert!(fixture.server.requests("PUT").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_given_name_that_is_taken_is_not_exchanged_for_another() {
    let fixture = fixture([status(409, "AlreadyExists")]);
    assert!(matches!(&execute(&fixture, &named("web-1")).await[0][0], Outcome::Failed(error) if error.is_already_exists()));
    assert_eq!(fixture.server.requests("POST").len(), 1);
    assert_eq!(fixture.server.requests("POST")[0].body["metadata"]["name"], "web-1");
}

#[tokio::test(start_paused = true)]
async fn what_is_there_under_a_name_is_read_live() {
    let fixture = fixture([(200, live("6")), status(404, "NotFound"), status(403, "Forbidden")]);
    let question = Question::Live { resource: &REPLICASETS, key: subject().key };
    let Answer::Object(Some(found)) = fixture.executor.ask(&question).await else { panic!("it is there") };
    assert_eq!(serde_json::from_str::<Value>(&found).unwrap(), live("6"));
    assert_eq!(fixture.executor.ask(&question).await, Answer::Object(None));
    assert!(matches!(fixture.executor.ask(&question).await, Answer::Failed(error) if error.code == 403));
}

#[tokio::test(start_paused = true)]
async fn a_status_that_is_to_be_decided_anew_is_not_written_over_a_newer_object() {
    let fixture = fixture([status(409, "Conflict")]);
    let update = StatusUpdate { if_refused: IfRefused::Fail, ..update() };
    assert!(fixture.executor.update_status(&update).await.unwrap_err().is_conflict());
    assert!(fixture.server.requests("GET").is_empty());
}

#[tokio::test(start_paused = true)]
async fn owners_are_exchanged_in_what_a_live_read_has() {
    let foreign = json!({"apiVersion": "example.com/v1", "kind": "Backup", "name": "web-0", "uid": "x", "newer": 1.5});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "name": "web-0", "uid": "of an earlier pod"});
    let mut object = live("5");
    object["metadata"]["ownerReferences"] = json!([foreign, pod]);
    let fixture = fixture([(200, object)]);
    let owner = |resource, name: &str| Owner { resource, name: Arc::from(name), uid: OWNER };
    let reown = Reown { target: subject(), remove: vec![owner(&PODS, "web-0")], add: Some(owner(&STATEFULSETS, "web")) };
    assert!(execute(&fixture, &one(Action::Reown(reown))).await[0][0].is_done());
    let added = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": OWNER.to_string(), "controller": true, "blockOwnerDeletion": true,
    });
    let put = &fixture.server.requests("PUT")[0].body;
    assert_eq!(put["metadata"]["ownerReferences"], json!([foreign, added]));
    assert_eq!(put["spec"], live("5")["spec"]);
}

#[tokio::test(start_paused = true)]
async fn a_task_ends_where_one_of_its_steps_fails_and_others_go_on() {
    let refused = |code: u16| (code, json!({"kind": "Status", "status": "Failure", "code": code, "message": "no"}));
    let made = (201, json!({"metadata": {"name": "a", "resourceVersion": "9"}}));
    // Of three steps the first two are tried though the first fails, the third is not; the next task begins after them.
    let fixture = fixture([refused(403), made.clone(), made]);
    let steps = ["a", "b", "c", "d"].map(named).into_iter().flat_map(|mut plan| plan.stages.remove(0).steps).collect();
    let mut plan = Plan::one_stage(steps, Mode::OneByOne, OnError::GoOn);
    plan.stages[0].tasks = vec![Task { tries: 2, then: 1 }];
    let outcomes = execute(&fixture, &plan).await;
    assert!(matches!(outcomes[0][..], [Outcome::Failed(_), Outcome::Done { .. }, Outcome::NotSent, Outcome::Done { .. }]), "{outcomes:?}");
    let sent = fixture.server.requests("POST");
    assert_eq!(sent.iter().map(|request| &request.body["metadata"]["name"]).collect::<Vec<_>>(), ["a", "b", "d"]);
}
