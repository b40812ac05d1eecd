//! Changes of objects that are there: patches, edits of what a live read has, given names, live questions.

use model::plan::{Edit, NewName, Patch};

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
