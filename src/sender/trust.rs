//! Whom requests trust, and who they say they are: what clients need to know for TLS.
//!
//! The system's certificates are read once for a sender, not for each client that is made; a reload
//! makes a new sender, which reads them anew. Clients without an authority of their own share them.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use crate::model::{Certificates, ClientCertificate};

/// What is wrong with a destination's certificates. Nothing of a key is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadTls {
    #[error("ca_pem holds no certificates in PEM form")]
    Ca,
    #[error("client_cert_pem and client_key_pem are no certificate with its private key in PEM form")]
    Client,
}

/// The authorities of a sender.
#[derive(Clone, Debug)]
pub struct Trust {
    provider: Arc<CryptoProvider>,
    roots: Arc<RootCertStore>,
}

impl Trust {
    /// The system's certificates and these. A system without any is noted: https then needs these.
    #[must_use]
    pub fn with_system(extra: &[CertificateDer<'static>]) -> Trust {
        let mut roots = RootCertStore::empty();
        let (added, ignored) =
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if added == 0 {
            tracing::warn!("no certificates of the system could be loaded: https needs send.ca_file");
        } else if ignored > 0 {
            tracing::warn!(ignored, "certificates of the system that cannot be used");
        }
        Trust::on(roots, extra)
    }

    /// These certificates alone.
    #[must_use]
    pub fn only(these: &[CertificateDer<'static>]) -> Trust {
        Trust::on(RootCertStore::empty(), these)
    }

    fn on(mut roots: RootCertStore, extra: &[CertificateDer<'static>]) -> Trust {
        roots.add_parsable_certificates(extra.iter().cloned());
        Trust { provider: Arc::new(rustls::crypto::aws_lc_rs::default_provider()), roots: Arc::new(roots) }
    }

    /// TLS 1.2 or 1.3 for a client, with the certificates of a destination if it has some.
    ///
    /// # Errors
    /// [`BadTls`] says which of them cannot be used.
    pub fn settings(&self, own: Option<&Certificates>) -> Result<ClientConfig, BadTls> {
        let roots = match own.and_then(|own| own.ca.as_deref()) {
            Some(pem) => Arc::new(self.roots_and(pem)?),
            None => Arc::clone(&self.roots),
        };
        let builder = ClientConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_safe_default_protocol_versions()
            .expect("the provider has ciphers of both")
            .with_root_certificates(roots);
        let mut made = match own.and_then(|own| own.client.as_ref()) {
            Some(client) => {
                let (chain, key) = identity(client)?;
                builder.with_client_auth_cert(chain, key).map_err(|_| BadTls::Client)?
            }
            None => builder.with_no_client_auth(),
        };
        made.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(made)
    }

    fn roots_and(&self, pem: &str) -> Result<RootCertStore, BadTls> {
        let mut roots = RootCertStore::clone(&self.roots);
        let more = certificates(pem.as_bytes()).map_err(|_| BadTls::Ca)?;
        roots.add_parsable_certificates(more);
        Ok(roots)
    }
}

/// Text is no certificate, or not one that can be trusted.
#[derive(Debug, thiserror::Error)]
pub enum NoCertificates {
    #[error("there is none in PEM form")]
    None,
    #[error(transparent)]
    Pem(#[from] pem::Error),
    #[error(transparent)]
    Der(#[from] rustls::Error),
}

/// The certificates of a PEM text: at least one, and all of them usable.
///
/// # Errors
/// [`NoCertificates`] says what they are instead.
pub fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, NoCertificates> {
    let found: Vec<CertificateDer<'static>> =
        CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>()?;
    let mut roots = RootCertStore::empty();
    found.iter().try_for_each(|one| roots.add(one.clone()))?;
    if found.is_empty() { Err(NoCertificates::None) } else { Ok(found) }
}

/// In whichever of the two texts they are; of several keys the last.
fn identity(
    client: &ClientCertificate,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), BadTls> {
    let ClientCertificate { chain, key } = client;
    let text = format!("{chain}\n{key}");
    let chain = CertificateDer::pem_slice_iter(text.as_bytes()).collect::<Result<Vec<_>, _>>();
    let keys = PrivateKeyDer::pem_slice_iter(text.as_bytes()).collect::<Result<Vec<_>, _>>();
    let (chain, keys) = (chain.map_err(|_| BadTls::Client)?, keys.map_err(|_| BadTls::Client)?);
    keys.into_iter().next_back().map(|key| (chain, key)).ok_or(BadTls::Client)
}

/// Says whether a client can be made of these certificates.
///
/// # Errors
/// [`BadTls`] says which of them cannot be used.
pub fn check(own: &Certificates) -> Result<(), BadTls> {
    Trust::only(&[]).settings(Some(own)).map(drop)
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    /// A certificate and its key, both in PEM.
    fn identified() -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let own = CertificateParams::new(["us.example".to_owned()]).unwrap().self_signed(&key).unwrap();
        (own.pem(), key.serialize_pem())
    }

    #[test]
    fn what_is_read_once_is_shared() {
        let trust = Trust::with_system(&[]);
        let before = Arc::strong_count(&trust.roots);
        let (pem, key) = identified();
        let client = Some(ClientCertificate { chain: pem.as_str().into(), key: key.into() });
        let shown = trust.settings(Some(&Certificates { ca: None, client })).unwrap();
        let many: Vec<_> = (0..99).map(|_| trust.settings(None).unwrap()).collect();
        assert_eq!(Arc::strong_count(&trust.roots), before + 100);
        let own = trust.settings(Some(&Certificates { ca: Some(pem.into()), client: None })).unwrap();
        assert_eq!(Arc::strong_count(&trust.roots), before + 100, "an own authority is for its destination");
        drop((shown, many, own));
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let ((one, key), (_, other)) = (identified(), identified());
        let check_ca = |ca: &str, want: Result<(), BadTls>| {
            assert_eq!(check(&Certificates { ca: Some(ca.into()), client: None }), want, "{ca}");
        };
        check_ca(&one, Ok(()));
        check_ca(&format!("{one}{one}"), Ok(()));
        for bad in ["", "x", &key, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            check_ca(bad, Err(BadTls::Ca));
        }
        let check_client = |chain: &str, key: &str, want: Result<(), BadTls>| {
            let client = Some(ClientCertificate { chain: chain.into(), key: key.into() });
            assert_eq!(check(&Certificates { ca: None, client }), want);
        };
        check_client(&one, &key, Ok(()));
        check_client(&format!("{one}{key}"), &key, Ok(()));
        for (chain, key) in [(&*one, &*other), (&one, "x"), ("x", &key), (&one, &one), ("", "")] {
            check_client(chain, key, Err(BadTls::Client));
        }
    }
}
