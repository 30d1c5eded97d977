//! Drill: destinations that only ever say 429, full of work that waits, and fresh work beside
//! them that must not notice; nor may they be asked more often than they allow.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::load::client::{Destination, delivery};
use super::load::holds::{Kept, kept};
use super::load::stream::Stream;
use super::load::waits::under;
use super::load::witness::Witness;
use super::load::{SETTLE, tell, tenant};
use super::receiver::{Answer, answer::wall_clock};
use super::throwaway::{DrillError, Throwaway};
use super::{Voice, wait_until};
use crate::time::Timestamp;

/// What each refusal asks for.
const HOLD: Duration = Duration::from_secs(30);
/// For the whole attempt.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Between two fresh deliveries: 20 a second.
const BEAT: Duration = Duration::from_millis(50);
/// From POST to receipt, for 95 of 100 fresh deliveries, and for each.
const FRESH_P95: Duration = Duration::from_millis(50);
const FRESH_WORST: Duration = Duration::from_secs(1);
/// What the class of the fresh deliveries promises: 95 of 100 begin within it.
const ROUTINE_WINDOW: Duration = Duration::from_secs(10);
/// Requests to a limited destination, in tenths for each hold, besides its first.
const REQUESTS: usize = 11;
/// The destination of the fresh work, and its tenant.
const FRESH: &str = "fresh";

/// How much of it.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Destinations that answer every request with 429.
    pub destinations: usize,
    /// Deliveries to them, over all.
    pub deliveries: usize,
    /// How long the fresh work is looked at.
    pub length: Duration,
}

/// What the limited destinations were asked, over all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Asked {
    /// Those that were asked at all.
    destinations: usize,
    requests: usize,
    holds: usize,
    inside: usize,
}

/// The receivers and the server before them.
struct Scene {
    load: Load,
    at: Witness,
    server: Throwaway,
    fresh: Stream,
}

/// Runs the drill; true when the promise was kept.
///
/// # Errors
/// [`DrillError`] when it could not be run to its end, which says nothing about the promise.
pub async fn run(voice: &mut Voice, load: Load) -> Result<bool, DrillError> {
    let scene = Scene::set(voice, load).await?;
    scene.fill(voice).await?;
    scene.watch(voice).await?;
    scene.judge(voice);
    Ok(voice.verdict("work that is held back delays nothing else, and its receivers are left alone"))
}

impl Scene {
    async fn set(voice: &Voice, load: Load) -> Result<Scene, DrillError> {
        let at = Witness::start(answer).await?;
        let server = Throwaway::start().await?;
        voice.say(&format!("a server (process {})", server.process()));
        let limited = |n| Destination { name: limited(n), tenant: tenant(n), timeout: TIMEOUT };
        server.client().make(&at, (0..load.destinations).map(limited)).await?;
        let fresh = Stream::to_known(FRESH, &server, &at).await?;
        voice.say(&format!(
            "{} destinations that say 429, Retry-After: {}, and 1 healthy one that is known",
            load.destinations,
            HOLD.as_secs()
        ));
        Ok(Scene { load, at, server, fresh })
    }

    /// Fills the limited ones. Half of it is due at once; the other half becomes so while the
    /// fresh work goes out, piece by piece.
    async fn fill(&self, voice: &Voice) -> Result<(), DrillError> {
        let Load { destinations, deliveries, length } = self.load;
        let now = wall_clock();
        let due = |n: usize| Timestamp::from(now + length.mul_f64(n as f64 / deliveries as f64));
        let all = (0..deliveries).map(|n| match n % 2 {
            0 => delivery(&limited(n / 2 % destinations)),
            _ => later(delivery(&limited(n / 2 % destinations)), due(n)),
        });
        self.server.client().post_all(all).await?;
        voice.say(&format!("{deliveries} deliveries to the limited ones were accepted"));
        Ok(())
    }

    async fn watch(&self, voice: &Voice) -> Result<(), DrillError> {
        let end = Instant::now() + self.load.length;
        let going = move || Instant::now() < end;
        let news = async {
            tell(voice, going, || self.standing()).await;
            Ok(())
        };
        tokio::try_join!(self.fresh.run(BEAT, going), news)?;
        wait_until(SETTLE, async || self.fresh.all_arrived(&self.at)).await;
        Ok(())
    }

    fn standing(&self) -> String {
        let refused = self.at.counts("limited-").1;
        format!("limited: {refused} refused; fresh: {}", self.fresh.waits(&self.at).so_far(95))
    }

    fn judge(&self, voice: &mut Voice) {
        let fresh = self.fresh.waits(&self.at);
        let (p95, worst) = (fresh.percentile(95), fresh.worst());
        voice.check(
            p95.is_some_and(|wait| wait <= FRESH_P95) && under(worst, FRESH_WORST),
            &format!(
                "fresh work: {} (p95 at most {} ms, worst under {} s; the window of routine is {} s)",
                fresh.told(95),
                FRESH_P95.as_millis(),
                FRESH_WORST.as_secs(),
                ROUTINE_WINDOW.as_secs()
            ),
        );
        let asked = Asked::of(self.at.each("limited-").iter().map(|all| (all.len(), kept(all, HOLD))));
        let Asked { destinations, requests, holds, inside } = asked;
        voice.check(
            asked.seldom(),
            &format!(
                "{requests} requests to {destinations} limited destinations in {holds} holds (at most {}.{} a hold, \
                 besides the first)",
                REQUESTS / 10,
                REQUESTS % 10
            ),
        );
        voice.check(inside == 0, &format!("{inside} requests inside a hold"));
    }
}

impl Asked {
    /// Adds up the number of requests of each destination and how its holds were kept.
    fn of(each: impl Iterator<Item = (usize, Kept)>) -> Asked {
        let mut asked = Asked::default();
        for (requests, Kept { periods, inside }) in each {
            asked.destinations += 1;
            asked.requests += requests;
            asked.holds += periods;
            asked.inside += inside;
        }
        asked
    }

    /// One request finds out that a hold is over; the first of all is not counted.
    fn seldom(&self) -> bool {
        let Asked { destinations, requests, holds, .. } = *self;
        requests > 0 && (requests - destinations) * 10 <= holds * REQUESTS
    }
}

fn limited(n: usize) -> String {
    format!("limited-{n}")
}

fn later(mut delivery: Value, due: Timestamp) -> Value {
    delivery["not_before"] = json!(due.to_string());
    delivery
}

fn answer(name: &str, _at: Duration) -> Answer {
    if name == FRESH { Answer::status(204) } else { Answer::refuse(&HOLD.as_secs().to_string()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_costs_one_request() {
        let check = |each: &[(usize, usize)], want: bool| {
            let kept = |&(requests, periods): &(usize, usize)| (requests, Kept { periods, inside: 0 });
            let asked = Asked::of(each.iter().map(kept));
            assert_eq!(asked.seldom(), want, "{asked:?}");
        };
        check(&[(2, 2), (2, 2)], true);
        check(&[(2, 1), (2, 1)], true);
        check(&[(3, 1)], false);
        check(&[(8, 2)], false);
        check(&[(12, 10); 1], true);
        check(&[(13, 10); 1], false);
        check(&[], false);
    }
}
