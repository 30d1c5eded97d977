//! Posts to one destination at a steady beat, whatever becomes of those before: a slow answer
//! must not thin out the very posts that would show it.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::client::{Client, Destination, finish_all, finish_one};
use super::waits::{Wait, Waits};
use super::witness::Witness;
use crate::drill::throwaway::{DrillError, Throwaway};
use crate::drill::wait_until;

/// For a delivery that nothing stands in the way of.
const SOON: Duration = Duration::from_secs(10);
/// For an attempt at a receiver that answers at once.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The posts to one destination. A post takes at most ten seconds, so the beat bounds how many
/// are under way.
pub(in crate::drill) struct Stream {
    client: Client,
    to: String,
    /// The instant before each POST.
    posted: Mutex<Vec<Instant>>,
}

impl Stream {
    /// Makes the destination `name` of the tenant of that name, and has one delivery succeed:
    /// the server knows it for a healthy one.
    pub(in crate::drill) async fn to_known(
        name: &str,
        server: &Throwaway,
        at: &Witness,
    ) -> Result<Stream, DrillError> {
        let client = server.client();
        let (name, tenant) = (name.to_owned(), name.to_owned());
        client.make(at, [Destination { name: name.clone(), tenant, timeout: TIMEOUT }]).await?;
        client.clone().post(name.clone(), "known".into()).await?;
        let succeeded = async || server.delivered(&name).await.is_ok_and(|count| count == 1);
        if !wait_until(SOON, succeeded).await {
            return Err(DrillError::Refused(format!("the first delivery to {name} did not arrive")));
        }
        Ok(Stream { client, to: name, posted: Mutex::default() })
    }

    /// Posts at every `beat` while `going`, and waits for the answers to all of them.
    pub(in crate::drill) async fn run(
        &self,
        beat: Duration,
        going: impl Fn() -> bool,
    ) -> Result<(), DrillError> {
        let mut beats = interval(beat);
        beats.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let mut posts = JoinSet::new();
        while going() {
            tokio::select! {
                _ = beats.tick() => {
                    posts.spawn(self.client.clone().post(self.to.clone(), self.next_key()));
                }
                ended = finish_one(&mut posts), if !posts.is_empty() => ended?,
            }
        }
        finish_all(&mut posts).await
    }

    /// The key of a post that is made now.
    fn next_key(&self) -> String {
        let mut posted = self.posted.lock().unwrap_or_else(PoisonError::into_inner);
        posted.push(Instant::now());
        key(posted.len() - 1)
    }

    /// From each POST so far to its first receipt.
    pub(in crate::drill) fn waits(&self, at: &Witness) -> Waits {
        let mut arrivals = std::collections::BTreeMap::new();
        for seen in at.requests(&self.to) {
            arrivals.entry(seen.key).or_insert(seen.at);
        }
        let posted = self.posted.lock().unwrap_or_else(PoisonError::into_inner);
        let now = at.time(Instant::now());
        let wait =
            |(n, from): (usize, &Instant)| Wait::new(at.time(*from), arrivals.get(&key(n)).copied(), now);
        Waits::new(posted.iter().enumerate().map(wait))
    }

    /// True when every post has arrived.
    pub(in crate::drill) fn all_arrived(&self, at: &Witness) -> bool {
        self.waits(at).missing() == 0
    }
}

fn key(n: usize) -> String {
    format!("beat-{n}")
}
