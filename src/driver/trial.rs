//! The test send: one request to a destination as it is set up, without a delivery.
//!
//! It goes the way of every attempt, egress rules and signatures included; what comes of it is
//! answered and forgotten: no gate learns from it, and nothing is stored.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::Semaphore;

use super::courier::endpoint;
use super::handle::{Handle, Unavailable};
use super::outlet::Outlet;
use crate::delivery::{AskedWait, Attempt};
use crate::model::DeliveryId;
use crate::outcome::{Asked, Outcome, RetryAfter};
use crate::sender::{Body, OutboundRequest, Seen};
use crate::store::DestinationView;
use crate::time::{Millis, Timestamp};

/// Test sends at once: they are an operator's, and take no slots.
const MAX_TRIALS: usize = 8;
/// When another may be tried after that: most answer at once.
const RETRY_AFTER: Millis = Millis(2_000);

/// What test sends share.
pub(super) struct Trials {
    outlet: Arc<Outlet>,
    turns: Semaphore,
}

impl Trials {
    pub(super) fn new(outlet: Arc<Outlet>) -> Trials {
        Trials { outlet, turns: Semaphore::new(MAX_TRIALS) }
    }
}

impl Handle {
    /// Sends `body` to a destination once, whatever its state, and says what came of it.
    ///
    /// # Errors
    /// [`Unavailable::QueueFull`] when as many are under way as may be.
    pub async fn trial(
        &self,
        destination: &DestinationView,
        body: Bytes,
        content_type: &str,
    ) -> Result<Attempt, Unavailable> {
        let full = Unavailable::QueueFull { retry_after: RETRY_AFTER };
        let _turn = self.trials.turns.try_acquire().map_err(|_| full)?;
        let started_at = self.now();
        let request = request(destination, body, content_type, started_at);
        let host = request.endpoint.url.host_str().map(str::to_owned);
        let seen = self.trials.outlet.now().send(request).await;
        Ok(attempt(seen, host, started_at, self.now()))
    }
}

fn request(to: &DestinationView, body: Bytes, content_type: &str, now: Timestamp) -> OutboundRequest {
    // A number that nobody has is no reason to fail: ids of one millisecond differ by counter only.
    let chance = getrandom::u64().unwrap_or_default();
    let delivery = DeliveryId::new(now, chance, chance >> 24);
    OutboundRequest {
        delivery,
        attempt: 1,
        key: delivery.to_string(),
        created_at: now,
        sent_at: now,
        content_type: content_type.to_owned(),
        headers: Vec::new(),
        body: Body::Bytes(body),
        endpoint: Arc::new(endpoint(to)),
        keep_alive: false,
    }
}

fn attempt(seen: Seen, host: Option<String>, started_at: Timestamp, ended_at: Timestamp) -> Attempt {
    let Seen { outcome, error, address, response_excerpt, fetched: _ } = seen;
    let retry_after = match &outcome {
        Outcome::Answered { headers, .. } => headers.read(ended_at),
        Outcome::NotSent(_) | Outcome::MaybeSent(_) | Outcome::Damaged => RetryAfter::Absent,
    };
    let asked = Asked { retry_after, applied: None, clamped: None };
    Attempt {
        n: 1,
        started_at,
        ended_at: Some(ended_at),
        result: outcome.result(),
        status: outcome.status(),
        error,
        host,
        address: address.map(|address| address.to_string()),
        late: false,
        retry_after: AskedWait::of(&outcome, &asked),
        next_attempt_at: None,
        response_excerpt,
    }
}
