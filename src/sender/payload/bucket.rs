//! A payload in a bucket of S3, or of what speaks its protocol. Where it is and who we are there is
//! read from the variables `AWS_*` by `object_store`, once, at the start.

use bytes::Bytes;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::client::{HttpClient, HttpConnector};
use object_store::path::Path;
use object_store::{ClientConfigKey, ClientOptions, Error, ObjectStoreExt, RetryConfig};

use super::{Fault, web};

/// How the answers begin that a bucket which does not exist gives in place of an object.
const NO_BUCKET: &str = "NoSuchBucket";

/// The bucket of this name. Nothing is asked yet.
pub(super) fn open(bucket: &str, clients: &web::Clients) -> Result<AmazonS3, Error> {
    // One attempt is one request: what fails is tried again by the delivery's own schedule.
    let once = RetryConfig { max_retries: 0, ..RetryConfig::default() };
    AmazonS3Builder::from_env()
        .with_bucket_name(bucket)
        .with_retry(once)
        .with_http_connector(Connector(clients.clone()))
        .build()
}

/// Reads the object `key`.
pub(super) async fn read(bucket: &AmazonS3, key: &str, max: usize) -> Result<Bytes, Fault> {
    let path = Path::parse(key).map_err(|_| Fault::unread("no object has such a key"))?;
    let object = bucket.get(&path).await.map_err(|error| fault(&error))?;
    if object.meta.size > max as u64 {
        return Err(Fault::too_large(max));
    }
    object.bytes().await.map_err(|error| fault(&error))
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the enum is not exhaustive")]
fn fault(error: &Error) -> Fault {
    match error {
        Error::NotFound { source, .. } if source.to_string().contains(NO_BUCKET) => {
            Fault::unread("its bucket is not there")
        }
        Error::NotFound { .. } => Fault::Gone("its bucket does not have it"),
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
            Fault::unread("its bucket does not let us read it")
        }
        _ => Fault::unread("its bucket could not be asked"),
    }
}

/// Our clients in place of its own, which would follow redirects and proxies of the environment.
#[derive(Debug)]
struct Connector(web::Clients);

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let allows = options.get_config_value(&ClientConfigKey::AllowHttp);
        let plain = allows.is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let client = if plain { &self.0.any } else { &self.0.secure };
        let missing = || Error::Generic { store: "S3", source: "tls could not be set up".into() };
        client.clone().map(HttpClient::new).ok_or_else(missing)
    }
}
