//! Drill: a receiver that takes so many a second, and far more that are due at once. It must be
//! refused as little as possible, in little more time than its limit asks for.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::Voice;
use super::load::bucket::Bucket;
use super::load::client::{Destination, delivery};
use super::load::holds::{Kept, kept};
use super::load::tell;
use super::load::witness::Witness;
use super::receiver::Answer;
use super::throwaway::{DrillError, Throwaway};

/// What a refusal asks for.
const HOLD: Duration = Duration::from_secs(2);
/// For the whole attempt.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Refusals, in percent of all requests.
const REFUSED: usize = 8;
/// The time until all are taken, in tenths of what a sender needs that knows the limit.
const DRAINED: u32 = 18;
/// The least time that is given: a hold, and what follows it.
const LEAST: Duration = Duration::from_secs(4);
/// The destination, and its tenant.
const HERD: &str = "herd";

/// How much of it.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Due at once.
    pub deliveries: usize,
    /// What the receiver takes a second, and in one go.
    pub rate: u32,
}

/// What came of it.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    taken: usize,
    refused: usize,
    /// From the first POST to the last receipt; `None`: not all were taken.
    drained: Option<Duration>,
}

/// The receiver and the server before it.
struct Scene {
    load: Load,
    at: Witness,
    server: Throwaway,
    since: Instant,
}

/// Runs the drill; true when the promise was kept.
///
/// # Errors
/// [`DrillError`] when it could not be run to its end, which says nothing about the promise.
pub async fn run(voice: &mut Voice, load: Load) -> Result<bool, DrillError> {
    let scene = Scene::set(voice, load).await?;
    scene.act(voice).await?;
    scene.judge(voice);
    Ok(voice.verdict("a receiver's limit is learnt, and used, from few refusals"))
}

impl Scene {
    async fn set(voice: &Voice, load: Load) -> Result<Scene, DrillError> {
        let bucket = Mutex::new(Bucket::full(load.rate));
        let answer = move |_: &str, at: Duration| {
            let taken = bucket.lock().unwrap_or_else(PoisonError::into_inner).take(at);
            if taken { Answer::status(204) } else { Answer::refuse(&HOLD.as_secs().to_string()) }
        };
        let at = Witness::start(answer).await?;
        let server = Throwaway::start().await?;
        let destination = Destination { name: HERD.into(), tenant: HERD.into(), timeout: TIMEOUT };
        server.client().make(&at, [destination]).await?;
        voice.say(&format!("a server (process {})", server.process()));
        voice.say(&format!(
            "1 receiver that takes {} a second, else 429, Retry-After: {}",
            load.rate,
            HOLD.as_secs()
        ));
        Ok(Scene { load, at, server, since: Instant::now() })
    }

    /// Posts everything, and looks until it was taken or far too late.
    async fn act(&self, voice: &Voice) -> Result<(), DrillError> {
        let deliveries = self.load.deliveries;
        self.server.client().post_all((0..deliveries).map(|_| delivery(HERD))).await?;
        voice.say(&format!("{deliveries} deliveries were accepted, due at once"));
        let patience = self.load.limit() * 3 / 2;
        let going = || self.at.counts(HERD).0 < deliveries && self.since.elapsed() < patience;
        tell(voice, going, || self.standing()).await;
        Ok(())
    }

    fn standing(&self) -> String {
        let (taken, refused) = self.at.counts(HERD);
        format!("{taken} of {} taken, {refused} refused", self.load.deliveries)
    }

    fn outcome(&self) -> Outcome {
        let requests = self.at.requests(HERD);
        let (taken, refused) = self.at.counts(HERD);
        let last = requests.iter().rev().find(|seen| !seen.refused).map(|seen| seen.at);
        let took = last.map(|at| at.saturating_sub(self.at.time(self.since)));
        Outcome { taken, refused, drained: took.filter(|_| taken >= self.load.deliveries) }
    }

    fn judge(&self, voice: &mut Voice) {
        let outcome = self.outcome();
        let Outcome { taken, refused, drained } = outcome;
        let percent = refused as f64 * 100.0 / (taken + refused).max(1) as f64;
        voice.check(
            outcome.few_refusals(),
            &format!(
                "{refused} of {} requests refused: {percent:.1} % (at most {REFUSED} %)",
                taken + refused
            ),
        );
        let (ideal, limit) = (self.load.ideal(), self.load.limit());
        let told = match drained {
            Some(time) => format!("all {taken} taken in {:.1} s", time.as_secs_f64()),
            None => format!("only {taken} of {} taken", self.load.deliveries),
        };
        voice.check(
            drained.is_some_and(|time| time <= limit),
            &format!(
                "{told} (at most {:.1} s; the limit alone asks for {:.1} s)",
                limit.as_secs_f64(),
                ideal.as_secs_f64()
            ),
        );
        let Kept { periods, inside } = kept(&self.at.requests(HERD), HOLD);
        voice.check(inside == 0, &format!("{inside} requests inside its {periods} holds"));
    }
}

impl Load {
    /// What a sender needs that knows the limit: the first go is free.
    fn ideal(&self) -> Duration {
        let behind = self.deliveries.saturating_sub(self.rate as usize);
        Duration::from_secs_f64(behind as f64 / f64::from(self.rate.max(1)))
    }

    /// What is given for it.
    fn limit(&self) -> Duration {
        (self.ideal() * DRAINED / 10).max(LEAST)
    }
}

impl Outcome {
    fn few_refusals(&self) -> bool {
        self.taken > 0 && self.refused * 100 <= (self.taken + self.refused) * REFUSED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_limit_asks_for_and_what_is_given() {
        let check = |deliveries: usize, ideal: u64, limit: u64| {
            let load = Load { deliveries, rate: 50 };
            let got = (load.ideal().as_millis(), load.limit().as_millis());
            assert_eq!(got, (ideal.into(), limit.into()), "{deliveries}");
        };
        check(1_500, 29_000, 52_200);
        check(50, 0, 4_000);
        check(10, 0, 4_000);
        check(150, 2_000, 4_000);
    }

    #[test]
    fn one_in_twelve_is_few() {
        let check = |taken: usize, refused: usize, want: bool| {
            let outcome = Outcome { taken, refused, drained: None };
            assert_eq!(outcome.few_refusals(), want, "{outcome:?}");
        };
        check(1_500, 130, true);
        check(1_500, 131, false);
        check(40, 0, true);
        check(0, 0, false);
    }
}
