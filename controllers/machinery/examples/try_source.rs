use machinery::client::*;
use machinery::source::*;
use model::*;
use std::time::Instant;
use tokio_util::sync::CancellationToken;
struct Count<O> {
    name: &'static str,
    listed: usize,
    live: usize,
    started: Instant,
    _o: std::marker::PhantomData<O>,
}
impl<O: Object> Sink<O> for Count<O> {
    fn apply(&mut self, e: SourceEvent<O>) {
        match e {
            SourceEvent::Listed(_) => self.listed += 1,
            SourceEvent::Synced(v) => println!("{} synced at {v}: {} listed in {:?}", self.name, self.listed, self.started.elapsed()),
            SourceEvent::Restarted => {
                self.listed = 0;
                println!("{} restarted {:?}", self.name, self.started.elapsed());
            }
            SourceEvent::Applied(o) => {
                self.live += 1;
                if self.live % 50 == 1 {
                    println!("{} applied {} @{}", self.name, o.name(), o.resource_version());
                }
            }
            SourceEvent::Deleted(o) => println!("{} deleted {} @{}", self.name, o.name(), o.resource_version()),
            SourceEvent::Bookmark(v) => println!("{} bookmark {v} {:?}", self.name, self.started.elapsed()),
        }
    }
}
fn count<O>(name: &'static str) -> Count<O> {
    Count { name, listed: 0, live: 0, started: Instant::now(), _o: std::marker::PhantomData }
}
#[tokio::main]
async fn main() {
    let url = std::env::args().nth(1).unwrap();
    let seconds: u64 = std::env::args().nth(2).unwrap().parse().unwrap();
    let create: usize = std::env::args().nth(3).map_or(0, |n| n.parse().unwrap());
    let mut config = kube::Config::new(url.parse().unwrap());
    config.accept_invalid_certs = true;
    config.auth_info =
        serde_json::from_value(serde_json::json!({"token": std::env::var("TOKEN").unwrap_or("admin-token".into())})).unwrap();
    let registry = prometheus::Registry::new();
    let cm = ClientMetrics::register(&registry).unwrap();
    let sm = SourceMetrics::register(&registry).unwrap();
    let clients = Clients::new(&config, &ClientOptions { qps: 0.0, ..Default::default() }, &cm).unwrap();
    let stop = CancellationToken::new();
    let c = SourceConfig::new(&plan::PODS, 1);
    let t = ApiTransport::new(clients.watches.clone(), &c, Format::Protobuf);
    let pods = Source::new(c, t, PodDecoder::default(), &sm);
    let ph = pods.handle();
    let c = SourceConfig::new(&plan::REPLICASETS, 2);
    let t = ApiTransport::new(clients.watches.clone(), &c, Format::Json);
    let sets = Source::new(c, t, model::replicaset::ReplicaSetDecoder::default(), &sm);
    let sh = sets.handle();
    let a = tokio::spawn(pods.run(count("pods"), stop.clone()));
    let b = tokio::spawn(sets.run(count("replicasets"), stop.clone()));

    if create > 0 {
        let body = serde_json::json!({"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"p-"},"spec":{"containers":[{"name":"c","image":"i"}]}}).to_string();
        let begun = Instant::now();
        let mut set = tokio::task::JoinSet::new();
        for _ in 0..create {
            let c = clients.writes.clone();
            let body = body.clone();
            set.spawn(async move {
                let r = http::Request::post("/api/v1/namespaces/default/pods")
                    .header("Content-Type", "application/json")
                    .header("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
                    .body(body.into())
                    .unwrap();
                c.send(r, Class::Write).await
            });
        }
        let mut errors = std::collections::BTreeMap::new();
        let mut size = 0;
        for r in set.join_all().await {
            match r {
                Ok(a) => size = a.body.len(),
                Err(e) => *errors.entry(format!("{e:?}")).or_insert(0) += 1,
            }
        }
        println!("{create} creates in {:?}, answer {size} bytes, errors {errors:?}", begun.elapsed());
    }
    for (path, accept) in [
        ("/api/v1/namespaces/default/pods/nope", "application/vnd.kubernetes.protobuf"),
        ("/nope", "application/json"),
        ("/api/v1/pods", "text/csv"),
        ("/api/v1/namespaces/default/pods/nope", "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"),
    ] {
        println!(
            "{:?}",
            clients
                .writes
                .send(http::Request::get(path).header("Accept", accept).body(Default::default()).unwrap(), Class::Get)
                .await
                .err()
        );
    }
    tokio::time::sleep(std::time::Duration::from_secs(seconds / 2)).await;
    if std::env::var("RELIST").is_ok() {
        ph.relist();
        sh.relist();
    }
    tokio::time::sleep(std::time::Duration::from_secs(seconds / 2)).await;
    println!("{:?}\n{:?}", ph.status(), sh.status());
    stop.cancel();
    a.await.unwrap();
    b.await.unwrap();
    for line in prometheus::TextEncoder::new()
        .encode_to_string(&registry.gather())
        .unwrap()
        .lines()
        .filter(|l| !l.starts_with('#') && !l.contains("_bucket"))
    {
        println!("{line}");
    }
}
