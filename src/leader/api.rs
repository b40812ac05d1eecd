//! The lease over HTTP: reading and writing it, and a watch that shows a standby each renewal as it happens.

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Method, Request};
use machinery::client::{ApiClient, CallError, Class};
use machinery::clock::Clock;
use machinery::source::{Backoff, FRAME_LIMIT, Frames};
use model::Format;
use model::plan::ApiError;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::watch;
use tracing::{debug, info};

use super::election::LeaseApi;
use super::lease::Lease;

/// [`LeaseApi`] over an [`ApiClient`].
#[derive(Clone, Debug)]
pub(super) struct HttpLease {
    client: ApiClient,
    collection: String,
    name: String,
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// How long a watch lasts, in seconds.
const WATCH_SECONDS: u32 = 300;

// === impl HttpLease ===

impl HttpLease {
    pub(super) fn new(client: ApiClient, namespace: &str, name: &str) -> Self {
        let collection = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
        Self { client, collection, name: name.to_owned() }
    }

    /// Tells `seen` of every change, for ever. Upstream only polls, and so learns up to 2.2 retry periods late when the lease was renewed
    /// for the last time, or given up. Where there is no right to watch, that is how it is here, too.
    pub(super) async fn watch(self, seen: watch::Sender<Option<Lease>>, clock: Clock, mut backoff: Backoff) {
        loop {
            match self.watch_once(&seen).await {
                Ok(()) => debug!(name = self.name, "The watch of the lease has ended"),
                Err(error) if error.code == 403 => info!(name = self.name, %error, "The lease cannot be watched and is only polled"),
                Err(error) => debug!(name = self.name, %error, "The lease cannot be watched now"),
            }
            tokio::time::sleep(backoff.delay(clock.now())).await;
        }
    }

    async fn watch_once(&self, seen: &watch::Sender<Option<Lease>>) -> Result<(), ApiError> {
        let Self { collection, name, .. } = self;
        let path = format!("{collection}?watch=true&fieldSelector=metadata.name%3D{name}&timeoutSeconds={WATCH_SECONDS}");
        let request = Request::get(path).header(ACCEPT, "application/json").body(Bytes::new()).map_err(|error| unusable(&error))?;
        let mut body = self.client.open(request).await.map_err(CallError::into_error)?;
        let mut frames = Frames::new(Format::Json, FRAME_LIMIT);
        while let Some(chunk) = body.next().await {
            frames.push(&chunk?);
            while let Some(frame) = frames.frame().map_err(|error| unusable(&format!("an event is longer than {} bytes", error.limit)))? {
                let event: Event<'_> = serde_json::from_slice(frame).map_err(|error| unusable(&error))?;
                match event.kind {
                    "ADDED" | "MODIFIED" => {
                        let lease = Lease::parse(event.object.get().as_bytes()).map_err(|error| unusable(&error))?;
                        seen.send_replace(Some(lease));
                    }
                    "ERROR" => return Err(unusable(&event.object)),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    async fn send(&self, method: Method, path: String, body: Vec<u8>) -> Result<Lease, ApiError> {
        let request = Request::builder().method(method).uri(path).header(ACCEPT, "application/json");
        let request = request.header(CONTENT_TYPE, "application/json").body(Bytes::from(body)).map_err(|error| unusable(&error))?;
        let answer = self.client.send(request, Class::Lease).await.map_err(CallError::into_error)?;
        Lease::parse(&answer.body).map_err(|error| unusable(&error))
    }

    fn path(&self) -> String {
        format!("{}/{}", self.collection, self.name)
    }
}

impl LeaseApi for HttpLease {
    async fn get(&self) -> Result<Lease, ApiError> {
        self.send(Method::GET, self.path(), Vec::new()).await
    }

    async fn create(&self, lease: &Lease) -> Result<Lease, ApiError> {
        self.send(Method::POST, self.collection.clone(), lease.body()).await
    }

    async fn update(&self, lease: &Lease) -> Result<Lease, ApiError> {
        self.send(Method::PUT, self.path(), lease.body()).await
    }
}

fn unusable(error: &impl ToString) -> ApiError {
    ApiError { reason: "Unusable".to_owned(), message: error.to_string(), ..ApiError::default() }
}
