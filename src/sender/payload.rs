//! Payloads that are kept elsewhere: read anew at each attempt, before its request.
//!
//! What is read lies below a prefix that the operator allows, whatever was allowed when the delivery
//! was taken. It is read in a way of its own, with its own deadline: the rules, clients and proxy of
//! destinations have no part in it, and no destination is ever called by way of it. What is missing
//! or has changed is gone for good; what cannot be read is our fault, and is tried again.

mod bucket;
mod file;
mod web;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use object_store::aws::AmazonS3;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::failure::Failure;
use super::trust::Trust;
use crate::model::reference::{self, Store};
use crate::model::{Digest, Prefix, Reference, digest};
use crate::outcome::{NotSent, Outcome};
use crate::time::Millis;

/// Bytes of payloads that were read and are being sent: half of what inline ones may take.
const MAX_HELD: usize = 128 << 20;
/// What is counted of them: a small payload does not hold the place of a large one.
const UNIT: usize = 4 << 10;
/// Files read at once. One on a file system that hangs keeps its thread, and no more than these.
pub const MAX_READERS: usize = 16;
/// Of the process, as its threads are: one that hangs outlives its sender when the settings change.
static READERS: Semaphore = Semaphore::const_new(MAX_READERS);

/// What the operator set (`[payload_refs]` of the configuration).
#[derive(Clone, Debug, Default)]
pub struct Settings {
    pub allow: Vec<Prefix>,
    /// For one payload, from the wait for room to its last byte.
    pub timeout: Millis,
    /// Bytes of one payload: `ingest.max_payload`.
    pub max: usize,
}

/// What a delivery says of its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Referred {
    pub uri: String,
    /// What its bytes must be.
    pub sha256: Option<Digest>,
    /// What they were: set before they are sent.
    pub read: Read,
}

/// The digest of what was read, once it was: whoever reports on an attempt that was cut knows it too.
pub type Read = Arc<OnceLock<Digest>>;

/// A bucket of `payload_refs.allow` cannot be set up.
#[derive(Debug, thiserror::Error)]
#[error("payload_refs.allow: the bucket {bucket} cannot be set up from the variables AWS_*: {source}")]
pub struct BadStore {
    bucket: String,
    #[source]
    source: Box<dyn std::error::Error + Send + Sync>,
}

/// Reads payloads. It keeps its own connections.
#[derive(Debug)]
pub struct Payloads {
    settings: Settings,
    web: web::Clients,
    buckets: BTreeMap<String, AmazonS3>,
    room: Arc<Semaphore>,
}

/// A payload. Its room in memory is free again when it goes.
pub(super) struct Found {
    pub(super) bytes: Bytes,
    pub(super) sha256: Digest,
    _room: OwnedSemaphorePermit,
}

/// Why there are no bytes to send. The words never hold a path or a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It is not there, or not what it was.
    Gone(&'static str),
    /// It may be read later.
    Unread(Cow<'static, str>),
}

impl Fault {
    fn unread(why: impl Into<Cow<'static, str>>) -> Fault {
        Fault::Unread(why.into())
    }

    fn too_large(max: usize) -> Fault {
        Fault::Unread(format!("it is longer than ingest.max_payload, {max} bytes").into())
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Failure {
        let (outcome, text) = match fault {
            Fault::Gone(why) => (NotSent::PayloadGone, why.into()),
            Fault::Unread(why) => (NotSent::Payload, why),
        };
        Failure { outcome: Outcome::NotSent(outcome), text: text.into_owned() }
    }
}

impl Payloads {
    /// A reader that has opened nothing yet. Its connections trust whom those of senders do.
    ///
    /// # Errors
    /// [`BadStore`] when the environment does not say how a bucket is read.
    pub(super) fn new(settings: Settings, trust: &Trust) -> Result<Payloads, BadStore> {
        let web = web::Clients::new(trust);
        let mut buckets = BTreeMap::new();
        for prefix in settings.allow.iter().filter(|prefix| prefix.store() == Store::S3) {
            let bucket = prefix.place().to_owned();
            let open = bucket::open(&bucket, &web)
                .map_err(|source| BadStore { bucket: bucket.clone(), source: source.into() })?;
            buckets.insert(bucket, open);
        }
        let room = Arc::new(Semaphore::new(MAX_HELD / UNIT));
        Ok(Payloads { settings, web, buckets, room })
    }

    /// The bytes that `referred` leads to.
    ///
    /// # Errors
    /// [`Fault`] says whether they may be there later.
    pub(super) async fn read(&self, referred: &Referred) -> Result<Found, Fault> {
        let reference = reference::admit(&self.settings.allow, &referred.uri)
            .map_err(|why| Fault::unread(why.to_string()))?;
        let limit = self.settings.timeout.duration();
        let late = |_| Fault::unread("it could not be read in payload_refs.timeout");
        let (bytes, room) = timeout(limit, self.fetch(&reference)).await.map_err(late)??;
        let sha256 = digest(&bytes);
        match referred.sha256 {
            Some(known) if known != sha256 => Err(Fault::Gone("its bytes are not those of its sha256")),
            Some(_) | None => Ok(Found { bytes, sha256, _room: room }),
        }
    }

    async fn fetch(&self, reference: &Reference) -> Result<(Bytes, OwnedSemaphorePermit), Fault> {
        let whole = units(self.settings.max);
        let room = Arc::clone(&self.room).acquire_many_owned(whole).await;
        let mut room = room.expect("it is never closed");
        let bytes = self.bytes(reference).await?;
        drop(room.split(whole.saturating_sub(units(bytes.len())) as usize));
        Ok((bytes, room))
    }

    async fn bytes(&self, reference: &Reference) -> Result<Bytes, Fault> {
        let max = self.settings.max;
        match reference.store() {
            Store::File => self.file(reference).await,
            Store::Http => web::read(&self.web, reference.url(), max).await,
            Store::S3 => match self.buckets.get(reference.place()) {
                Some(open) => bucket::read(open, &reference.key(), max).await,
                None => Err(Fault::unread("its bucket is not set up")),
            },
        }
    }

    /// On a thread of its own: a disk may take its time, and some of them for ever.
    async fn file(&self, reference: &Reference) -> Result<Bytes, Fault> {
        let covering = self.settings.allow.iter().find(|prefix| prefix.covers(reference));
        let folder = covering.map(Prefix::folder).unwrap_or_default();
        let (key, max) = (reference.key(), self.settings.max);
        let turn = READERS.acquire().await.expect("it is never closed");
        let read = tokio::task::spawn_blocking(move || {
            let read = file::read(&folder, &key, max);
            drop(turn);
            read
        });
        read.await.unwrap_or_else(|_| Err(Fault::unread("reading it was given up")))
    }
}

fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT).clamp(1, MAX_HELD / UNIT)).unwrap_or(u32::MAX)
}

#[cfg(test)]
#[path = "payload/tests.rs"]
mod tests;
