//! A source and a store, wired.

use machinery::client::ApiClient;
use machinery::source::{ApiTransport, Source, SourceConfig, SourceMetrics};
use machinery::store::StoreWriter;
use model::Decode;
use model::plan::Resource;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// What informers of a process share.
#[derive(Clone, Debug)]
pub(crate) struct Informers {
    /// The connection for lists and watches.
    pub(crate) client: ApiClient,
    pub(crate) metrics: SourceMetrics,
    pub(crate) tasks: TaskTracker,
    pub(crate) stop: CancellationToken,
}

// === impl Informers ===

impl Informers {
    /// Fills a store with the objects of a resource that have such fields, and keeps it up to date. All of the store's handlers must have
    /// been added before: they do not hear of what was there.
    pub(crate) fn start<D: Decode>(&self, resource: &'static Resource, fields: Option<&str>, decoder: D, writer: StoreWriter<D::Object>) {
        let mut config = SourceConfig::new(resource, fastrand::u64(..));
        config.field_selector = fields.map(str::to_owned);
        let transport = ApiTransport::new(self.client.clone(), &config, D::FORMAT);
        let source = Source::new(config, transport, decoder, &self.metrics);
        self.tasks.spawn(source.run(writer, self.stop.clone()));
    }
}
