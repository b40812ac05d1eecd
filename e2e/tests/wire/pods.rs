//! The same pods in both forms.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use e2e::wait;
use http::Method;
use machinery::source::{ApiTransport, Freshness, PageRequest, PageStart, Transport as _};
use model::plan::PODS;
use model::protobuf::{Envelope, List};
use model::{Decode, Format, Object, Pod, PodDecoder};
use serde_json::{Value, json};

use crate::Shared;
use crate::generate::{self, COST, Generated};
use crate::plain::{compare, expected_cost};
use crate::reading::{Seen, client, config, of, start};
use crate::support::{PATIENCE, Space};

const COUNT: usize = 80;

/// A seed of an earlier run, to have its pods again.
const SEED: &str = "WIRE_SEED";

pub(crate) async fn pods_read_as_protobuf_are_those_read_as_json(planes: Shared) -> Result<()> {
    let seed = std::env::var(SEED).ok().map_or_else(|| Ok(fastrand::u64(..)), |text| text.parse()).context(SEED)?;
    println!("pods of {SEED}={seed}");
    let plane = &planes.streaming;
    let space = Space::new(plane, "pods").await?;
    let admin = client(&config(plane, None).await?)?;
    let reads = || of(&PODS, &space.namespace);

    // One source is there from the beginning and sees every change.
    let watched = Seen::default();
    let transport = || ApiTransport::new(admin.clone(), &reads(), Format::Protobuf);
    let mut watching = start(reads(), transport(), PodDecoder::new(), watched.clone())?;
    ensure!(watching.handle.synced().await, "the source ended");
    let mut rng = fastrand::Rng::with_seed(seed);
    for n in 0..COUNT {
        write(&space, generate::pod(&mut rng, n)).await.with_context(|| format!("pod {n} of {SEED}={seed}"))?;
    }
    let list = space.request(Method::GET, "/api/v1", "pods", &Value::Null).await?;
    let pods: BTreeMap<_, _> = list["items"].as_array().unwrap().iter().map(|pod| (text(pod, "name"), pod.clone())).collect();
    ensure!(pods.len() == COUNT, "{} pods", pods.len());

    let applied = wait::until("the watch to have the last versions", PATIENCE, async || {
        let applied = watched.look(|history| history.applied.clone());
        for (name, pod) in &pods {
            let ours = applied.get(name).with_context(|| format!("{name} was not seen"))?;
            ensure!(ours.resource_version().to_string() == text(pod, "resourceVersion"), "{name} is older");
        }
        Ok(applied)
    })
    .await?;
    // Another one begins with a streamed list.
    let streamed = Seen::default();
    let mut streaming = start(reads(), transport(), PodDecoder::new(), streamed.clone())?;
    ensure!(streaming.handle.synced().await, "the source ended");
    let streamed = streamed.look(|history| history.listed.clone());
    let paged = read_pages(transport()).await?;
    for (way, mut have) in [("watched", applied), ("streamed", streamed), ("paged", paged)] {
        for (name, pod) in &pods {
            let ours = have.remove(name).with_context(|| format!("{name} is missing ({way})"))?;
            println_on_panic(seed, way, pod, || compare(&ours, pod));
        }
        ensure!(have.is_empty(), "{way}: too many: {:?}", have.keys());
    }
    Ok(())
}

fn text(object: &Value, field: &str) -> String {
    object["metadata"][field].as_str().unwrap_or_default().to_owned()
}

/// Says which pod it was that a comparison panicked over.
fn println_on_panic(seed: u64, way: &str, pod: &Value, compare: impl FnOnce()) {
    if let Err(panic) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(compare)) {
        println!("{SEED}={seed}, {way}: {pod:#}");
        std::panic::resume_unwind(panic);
    }
}

async fn write(space: &Space, Generated { mut pod, status, deleted }: Generated) -> Result<()> {
    let made = space.create("pods", &pod).await;
    if pod["metadata"]["annotations"][COST].is_string() {
        // The server lets no cost through that does not count.
        let (cost, counts) = (pod["metadata"]["annotations"][COST].clone(), expected_cost(&pod));
        match &made {
            Ok(_) => {
                ensure!(counts != 0 || cost.as_str().is_some_and(|cost| cost.trim_matches(['-', '0']).is_empty()), "{cost} reads as 0");
            }
            Err(error) => {
                ensure!(format!("{error:#}").contains("must be a 32bit integer") && counts == 0, "{cost} reads as {counts}: {error:#}");
            }
        }
    }
    if made.is_err() {
        pod["metadata"]["annotations"].as_object_mut().unwrap().remove(COST);
        space.create("pods", &pod).await?;
    }
    let path = format!("pods/{}", text(&pod, "name"));
    space.request(Method::PATCH, "/api/v1", &format!("{path}/status"), &json!({"status": status})).await?;
    if deleted {
        space.request(Method::DELETE, "/api/v1", &path, &json!({"gracePeriodSeconds": 0})).await?;
    }
    Ok(())
}

async fn read_pages(mut transport: ApiTransport) -> Result<BTreeMap<String, std::sync::Arc<Pod>>> {
    let mut decoder = PodDecoder::new();
    let mut pods = BTreeMap::new();
    let mut at = PageStart::First(Freshness::Consistent);
    loop {
        let body = transport.list(&PageRequest { limit: 30, at }).await.map_err(|error| anyhow::anyhow!("{error:?}"))?;
        let list = List::read(Envelope::open(&body)?.raw)?;
        for item in list.items() {
            let pod = decoder.decode(item?)?;
            pods.insert(pod.name.to_string(), std::sync::Arc::new(pod));
        }
        if list.meta.continue_token.is_empty() {
            return Ok(pods);
        }
        at = PageStart::Continue(list.meta.continue_token.to_owned());
    }
}
