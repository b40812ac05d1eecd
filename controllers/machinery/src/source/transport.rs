//! How a source asks: the requests as data, and the trait through which they leave, so that tests can script the answers.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http::header::ACCEPT;
use model::plan::ApiError;
use model::{Format, ResourceVersion};

use super::SourceConfig;
use crate::client::{ApiClient, CallError, Class, Form, Streaming, no_answer};

/// How fresh a list must be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Freshness {
    /// As fresh as the storage is now: a quorum read.
    Consistent,
    /// Nothing older than this: what a source asks for that has been there already. Cheaper, for the server's cache may answer.
    NotOlderThan(ResourceVersion),
}

/// Asks for one page of a list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PageRequest {
    /// At most so many objects.
    pub limit: u32,
    /// Which page, and how fresh the first one must be.
    pub at: PageStart,
}

/// Where a page begins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PageStart {
    /// At the start of a list.
    First(Freshness),
    /// Where the page before it ended; the version is the first page's.
    Continue(String),
}

/// Asks for a watch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WatchRequest {
    /// Where it begins.
    pub start: WatchStart,
    /// When the server shall end it.
    pub timeout: Duration,
}

/// Where a watch begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WatchStart {
    /// With everything there is: a streaming list.
    InitialEvents(Freshness),
    /// Behind this version.
    After(ResourceVersion),
}

/// The way to one resource of an API server.
pub trait Transport: Send + 'static {
    /// A watch's body.
    type Chunks: Chunks;

    /// Reads one page.
    fn list(&mut self, request: &PageRequest) -> impl Future<Output = Result<Bytes, CallError>> + Send;

    /// Opens a watch.
    fn watch(&mut self, request: &WatchRequest) -> impl Future<Output = Result<Self::Chunks, CallError>> + Send;
}

/// A body that arrives in pieces.
pub trait Chunks: Send + 'static {
    /// The next piece; `None` at the end. Dropping the future must lose nothing.
    fn next(&mut self) -> impl Future<Output = Option<Result<Bytes, ApiError>>> + Send;
}

/// How much of an object is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Extent {
    /// All of it.
    #[default]
    Full,
    /// Its metadata (`PartialObjectMetadata`).
    Metadata,
}

/// [`Transport`] over an [`ApiClient`].
#[derive(Debug)]
pub struct ApiTransport {
    client: ApiClient,
    path: String,
    selectors: Vec<(&'static str, String)>,
    format: Format,
    extent: Extent,
}

// === impl PageRequest ===

impl PageRequest {
    fn query(&self) -> Vec<(&'static str, String)> {
        let mut query = vec![("limit", self.limit.to_string())];
        match &self.at {
            PageStart::First(freshness) => query.extend(freshness.query()),
            PageStart::Continue(token) => query.push(("continue", token.clone())),
        }
        query
    }
}

// === impl WatchRequest ===

impl WatchRequest {
    fn query(&self) -> Vec<(&'static str, String)> {
        let mut query = vec![
            ("watch", "true".to_owned()),
            ("allowWatchBookmarks", "true".to_owned()),
            ("timeoutSeconds", self.timeout.as_secs().to_string()),
        ];
        match self.start {
            WatchStart::After(version) => query.push(("resourceVersion", version.to_string())),
            WatchStart::InitialEvents(freshness) => {
                query.push(("sendInitialEvents", "true".to_owned()));
                query.extend(freshness.query());
                if freshness == Freshness::Consistent {
                    // Required beside sendInitialEvents, even without a version.
                    query.push(("resourceVersionMatch", "NotOlderThan".to_owned()));
                }
            }
        }
        query
    }
}

// === impl Freshness ===

impl Freshness {
    fn query(self) -> Vec<(&'static str, String)> {
        match self {
            Self::Consistent => Vec::new(),
            Self::NotOlderThan(version) => {
                vec![("resourceVersion", version.to_string()), ("resourceVersionMatch", "NotOlderThan".to_owned())]
            }
        }
    }
}

// === impl ApiTransport ===

impl ApiTransport {
    /// For the resource, selectors and extent of `config`.
    pub fn new(client: ApiClient, config: &SourceConfig, format: Format) -> Self {
        let field = config.field_selector.clone().map(|selector| ("fieldSelector", selector));
        let label = config.label_selector.clone().map(|selector| ("labelSelector", selector));
        Self {
            client,
            path: config.resource.path(config.namespace.as_deref()),
            selectors: field.into_iter().chain(label).collect(),
            format,
            extent: config.extent,
        }
    }

    fn request(&self, query: &[(&'static str, String)], accept: &str) -> Result<Request<Bytes>, CallError> {
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(query).extend_pairs(&self.selectors).finish();
        Request::get(format!("{}?{query}", self.path))
            .header(ACCEPT, accept)
            .body(Bytes::new())
            .map_err(|error| CallError::NotSent(no_answer("BadRequest", &error.to_string())))
    }

    /// The answer must be in the form that was asked for: a proxy's page of HTML is no empty list.
    fn check(&self, content_type: &str) -> Result<(), CallError> {
        let wanted = match self.format {
            Format::Json => Form::Json,
            Format::Protobuf => Form::Protobuf,
        };
        if Form::of(content_type) == wanted {
            return Ok(());
        }
        Err(CallError::Refused(no_answer("UnexpectedContentType", &format!("the answer's content type is {content_type:?}"))))
    }
}

/// What to ask for; no gzip is ever asked for (on a watch the server sends several members).
fn accept(format: Format, extent: Extent, watch: bool) -> &'static str {
    match (format, extent, watch) {
        (Format::Json, Extent::Full, _) => "application/json",
        (Format::Json, Extent::Metadata, true) => "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
        (Format::Json, Extent::Metadata, false) => "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
        (Format::Protobuf, Extent::Full, true) => "application/vnd.kubernetes.protobuf;stream=watch",
        (Format::Protobuf, Extent::Full, false) => "application/vnd.kubernetes.protobuf",
        (Format::Protobuf, Extent::Metadata, true) => {
            "application/vnd.kubernetes.protobuf;stream=watch;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
        }
        (Format::Protobuf, Extent::Metadata, false) => {
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
        }
    }
}

impl Transport for ApiTransport {
    type Chunks = Streaming;

    async fn list(&mut self, request: &PageRequest) -> Result<Bytes, CallError> {
        let request = self.request(&request.query(), accept(self.format, self.extent, false))?;
        let answer = self.client.send(request, Class::Page).await?;
        self.check(&answer.content_type)?;
        Ok(answer.body)
    }

    async fn watch(&mut self, request: &WatchRequest) -> Result<Streaming, CallError> {
        let request = self.request(&request.query(), accept(self.format, self.extent, true))?;
        let opened = self.client.open(request).await?;
        self.check(&opened.content_type)?;
        Ok(opened)
    }
}

impl Chunks for Streaming {
    async fn next(&mut self) -> Option<Result<Bytes, ApiError>> {
        Self::next(self).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(query: &[(&'static str, String)]) -> String {
        form_urlencoded::Serializer::new(String::new()).extend_pairs(query).finish()
    }

    #[test]
    fn queries_are_those_of_the_api() {
        let page = |at| text(&PageRequest { limit: 500, at }.query());
        assert_eq!(page(PageStart::First(Freshness::Consistent)), "limit=500");
        assert_eq!(
            page(PageStart::First(Freshness::NotOlderThan(ResourceVersion(7)))),
            "limit=500&resourceVersion=7&resourceVersionMatch=NotOlderThan"
        );
        assert_eq!(page(PageStart::Continue("a+b".to_owned())), "limit=500&continue=a%2Bb", "no version beside a token");

        let watch = |start| text(&WatchRequest { start, timeout: Duration::from_secs(301) }.query());
        let common = "watch=true&allowWatchBookmarks=true&timeoutSeconds=301";
        assert_eq!(watch(WatchStart::After(ResourceVersion(9))), format!("{common}&resourceVersion=9"));
        assert_eq!(
            watch(WatchStart::InitialEvents(Freshness::Consistent)),
            format!("{common}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan")
        );
        assert_eq!(
            watch(WatchStart::InitialEvents(Freshness::NotOlderThan(ResourceVersion(9)))),
            format!("{common}&sendInitialEvents=true&resourceVersion=9&resourceVersionMatch=NotOlderThan")
        );
    }

    #[test]
    fn selectors_are_encoded() {
        let pairs = [("labelSelector", "app in (a, b),!c".to_owned())];
        assert_eq!(text(&pairs), "labelSelector=app+in+%28a%2C+b%29%2C%21c");
    }
}
