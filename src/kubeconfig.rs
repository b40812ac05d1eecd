//! Kubeconfigs, and what else names an API server.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use kube::config::{KubeConfigOptions, Kubeconfig};

use crate::options::ConnectionOptions;
use crate::serve::access::ca_certificates;

/// The way to the API server that the options choose.
pub(crate) async fn client_config(options: &ConnectionOptions) -> anyhow::Result<kube::Config> {
    let master = options.master.as_ref().map(|url| url.parse::<http::Uri>().with_context(|| format!("--master: {url:?} is not a URL")));
    let master = master.transpose()?;
    let mut config = match (&options.kubeconfig, &master) {
        (Some(path), _) => kubeconfig("--kubeconfig", path, &KubeConfigOptions::default()).await?,
        (None, Some(master)) => kube::Config::new(master.clone()),
        (None, None) => {
            let mut config =
                kube::Config::incluster().context("no --kubeconfig, no --master, and this is no pod with a service account")?;
            config.proxy_url = None;
            config
        }
    };
    if let Some(master) = master {
        config.cluster_url = master;
    }
    Ok(config)
}

/// Reads a kubeconfig that a flag names.
pub(crate) async fn kubeconfig(flag: &str, path: &Path, choice: &KubeConfigOptions) -> anyhow::Result<kube::Config> {
    let file = Kubeconfig::read_from(path).with_context(|| format!("{flag}: reading {}", path.display()))?;
    let proxied = file.clusters.iter().any(|named| named.cluster.as_ref().is_some_and(|cluster| cluster.proxy_url.is_some()));
    let authority = authority_file(&file, choice);
    let config = kube::Config::from_custom_kubeconfig(file, choice).await;
    let mut config = config.with_context(|| format!("{flag}: {} cannot be used", path.display()))?;
    // kube reads it once; so named, it is read again when it changes.
    config.root_cert_file = authority;
    // Without a proxy of the file's own, kube takes one from the environment, and knows no NO_PROXY.
    config.proxy_url = config.proxy_url.filter(|_| proxied);
    Ok(config)
}

/// Whom a client believes to be its server: who has a certificate of the authority in the file that a flag names, or anybody; else whom the
/// kubeconfig says. The file wins over the kubeconfig's own, and nobody's authority is looked for where anybody is believed.
pub(crate) fn trust(config: &mut kube::Config, authority: Option<(&str, &Path)>, anybody: bool) -> anyhow::Result<()> {
    config.accept_invalid_certs = anybody;
    if anybody {
        config.root_cert = Some(Vec::new());
    }
    if let Some((flag, path)) = authority {
        let pem = std::fs::read(path).with_context(|| format!("{flag}: reading {}", path.display()))?;
        let certificates = ca_certificates(&pem).with_context(|| format!("{flag}: {}", path.display()))?;
        config.root_cert = Some(certificates.into_iter().map(|certificate| certificate.to_vec()).collect());
        config.root_cert_file = None;
    }
    Ok(())
}

/// The file with the authority of the cluster that is chosen, unless the kubeconfig has the certificates themselves.
fn authority_file(file: &Kubeconfig, choice: &KubeConfigOptions) -> Option<PathBuf> {
    let context = choice.context.as_ref().or(file.current_context.as_ref());
    let context = file.contexts.iter().find(|named| Some(&named.name) == context).and_then(|named| named.context.as_ref());
    let name = choice.cluster.as_ref().or_else(|| context.map(|context| &context.cluster))?;
    let cluster = file.clusters.iter().find(|named| named.name == *name)?.cluster.as_ref()?;
    cluster.certificate_authority.as_ref().filter(|_| cluster.certificate_authority_data.is_none()).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(choice: &KubeConfigOptions) -> Option<PathBuf> {
        let file = serde_json::json!({
            "clusters": [
                {"name": "a", "cluster": {"server": "https://a", "certificate-authority": "/a.crt"}},
                {"name": "b", "cluster": {"server": "https://b", "certificate-authority": "/b.crt", "certificate-authority-data": "AA=="}},
                {"name": "c", "cluster": {"server": "https://c"}},
            ],
            "contexts": [{"name": "x", "context": {"cluster": "a"}}, {"name": "y", "context": {"cluster": "b"}}],
            "current-context": "x",
        });
        authority_file(&Kubeconfig::from_yaml(&file.to_string()).unwrap(), choice)
    }

    #[test]
    fn the_authority_is_the_chosen_clusters() {
        let context = |name: &str| KubeConfigOptions { context: Some(name.to_owned()), ..KubeConfigOptions::default() };
        let cluster = |name: &str| KubeConfigOptions { cluster: Some(name.to_owned()), ..context("y") };
        assert_eq!(chosen(&KubeConfigOptions::default()), Some("/a.crt".into()));
        assert_eq!(chosen(&cluster("a")), Some("/a.crt".into()));
        // Data wins; without either there is nothing to read again.
        for none in [context("y"), context("nobody"), cluster("b"), cluster("c")] {
            assert_eq!(chosen(&none), None, "{:?} {:?}", none.context, none.cluster);
        }
    }
}
