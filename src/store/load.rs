//! What a send needs, read after the commit that claimed it: record and body, checked against
//! their checksums and against the lease.

use std::fmt;

use bytes::{Bytes, BytesMut};
use redb::ReadableTable;

use super::record;
use super::rows::{part_key, parts};
use super::write::Writing;
use super::{Snapshot, StoreError};
use crate::delivery::{Delivery, Lease, State};

/// A claimed delivery, ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loaded {
    Ready {
        delivery: Box<Delivery>,
        body: Body,
    },
    /// Its record or body fails its checksum, or is not what the lease was made from.
    Damaged,
    /// An operator erased its body after it was claimed.
    Erased,
}

/// The bytes of a body.
#[derive(Clone, PartialEq, Eq)]
pub struct Body(pub Bytes);

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Body({} bytes)", self.0.len())
    }
}

impl Snapshot {
    /// Reads what `lease` is for.
    ///
    /// # Errors
    /// [`StoreError`] when the file cannot be read; damage is [`Loaded::Damaged`].
    pub fn load(&self, lease: &Lease) -> Result<Loaded, StoreError> {
        let Some(value) = self.tables.deliveries.get(lease.id.0)? else { return Ok(Loaded::Damaged) };
        let Ok(delivery) = record::decode_delivery(lease.id, value.value()) else {
            return Ok(Loaded::Damaged);
        };
        if !claimed_from(&delivery, lease) {
            return Ok(Loaded::Damaged);
        }
        if delivery.payload.erased_at.is_some() {
            return Ok(Loaded::Erased);
        }
        Ok(match self.body(&delivery)? {
            Some(body) => Loaded::Ready { delivery: Box::new(delivery), body },
            None => Loaded::Damaged,
        })
    }

    /// The whole body, or None when a part of it is missing or damaged. Of a reference nothing is
    /// stored, and that is whole.
    pub(super) fn body(&self, it: &Delivery) -> Result<Option<Body>, StoreError> {
        let bytes = it.body_bytes();
        let mut body = BytesMut::with_capacity(usize::try_from(bytes).unwrap_or(0));
        for n in 0..parts(bytes) {
            let Some(value) = self.tables.payloads.get((it.id.0, n))? else { return Ok(None) };
            match record::unseal_part(&part_key(it.id, n), value.value()) {
                Ok(part) => body.extend_from_slice(part),
                Err(record::Damaged) => return Ok(None),
            }
        }
        let whole = body.len() == usize::try_from(bytes).unwrap_or(usize::MAX);
        Ok(whole.then(|| Body(body.freeze())))
    }
}

impl Writing<'_> {
    /// True when every part of the body is there and good, or nothing of one is stored.
    pub(crate) fn has_whole_body(&self, it: &Delivery) -> Result<bool, StoreError> {
        for n in 0..parts(it.body_bytes()) {
            let Some(value) = self.tables.payloads.get((it.id.0, n))? else { return Ok(false) };
            if record::unseal_part(&part_key(it.id, n), value.value()).is_err() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// True when the record still says what the index row said that the lease was made from.
fn claimed_from(it: &Delivery, lease: &Lease) -> bool {
    let State::Waiting { due, lane, .. } = it.state else { return false };
    let numbered = lease.attempt == it.attempts.saturating_add(1);
    it.destination == lease.destination && due == lease.due && lane == lease.lane && numbered
}
