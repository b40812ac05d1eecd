//! What is served, and to whom.

use std::net::IpAddr;

use clap::Args;

/// What is served, and to whom.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Serving")]
pub(crate) struct ServingOptions {
    /// Address to serve /healthz and /metrics on. Loopback only, since there is no TLS and no authentication yet.
    #[arg(long, value_name = "IP", default_value = "127.0.0.1", value_parser = loopback)]
    pub(crate) bind_address: IpAddr,

    /// Port to serve /healthz and /metrics on, unencrypted; 0 serves nothing.
    #[arg(long, value_name = "PORT", default_value_t = 10252)]
    pub(crate) port: u16,
}

fn loopback(text: &str) -> Result<IpAddr, String> {
    let address: IpAddr = text.parse().map_err(|_| "not an IP address".to_owned())?;
    if address.is_loopback() { Ok(address) } else { Err("only a loopback address can be served without TLS and authentication".to_owned()) }
}
