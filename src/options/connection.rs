//! The way to the API server.

use std::path::PathBuf;

use clap::Args;

use super::boolean::go_bool;

/// The way to the API server.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "API server")]
pub(crate) struct ConnectionOptions {
    /// Kubeconfig with the API server's address and credentials. Default: the pod's service account.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// Address of the API server; overrides the one in the kubeconfig.
    #[arg(long, value_name = "URL")]
    pub(crate) master: Option<String>,

    /// Speak HTTP/1.1 to the API server, one connection a request in flight: for proxies and load balancers without HTTP/2.
    #[arg(long)]
    pub(crate) http1: bool,

    /// How what is not kept whole (pods, claims, revisions) comes from the API server. The other kinds come as JSON, so that fields newer
    /// than this program survive. There is no other value.
    #[arg(long, value_name = "TYPE", default_value = PROTOBUF, value_parser = [PROTOBUF])]
    pub(crate) kube_api_content_type: String,

    /// Let each controller write in the name of a service account of its own in kube-system, with tokens that are asked for; caches, the
    /// lease and reviews stay with the kubeconfig's identity.
    #[arg(long, value_name = "BOOL", default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = go_bool, action = clap::ArgAction::Set)]
    pub(crate) use_service_account_credentials: bool,

    /// Requests a second that each controller may make.
    #[arg(long, value_name = "QPS", default_value_t = 20.0, value_parser = positive)]
    pub(crate) kube_api_qps: f32,

    /// Requests that each controller may make at once before the rate counts.
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) kube_api_burst: u32,
}

/// Upstream `runtime.ContentTypeProtobuf`.
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

fn positive(text: &str) -> Result<f32, String> {
    match text.parse::<f32>() {
        Ok(value) if value > 0.0 && value.is_finite() => Ok(value),
        Ok(_) => Err("must be greater than zero".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}
