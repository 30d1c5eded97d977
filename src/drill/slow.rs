//! Drill: more receivers that take half a minute than there are slots, and deliveries to
//! healthy ones beside them, known and never seen before, that must not wait for them.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::load::client::{Client, Destination, delivery};
use super::load::stream::Stream;
use super::load::waits::{Wait, Waits, under};
use super::load::witness::{Witness, most_open};
use super::load::{SETTLE, tell, tenant};
use super::receiver::Answer;
use super::throwaway::{DrillError, Throwaway};
use super::{Voice, wait_until};

/// What a slow receiver takes.
const DELAY: Duration = Duration::from_secs(25);
/// A little more, so that the slow ones succeed: what is tried is waiting, not failure.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Between two deliveries to the known destination: 10 a second.
const BEAT: Duration = Duration::from_millis(100);
/// Between two destinations that were never seen before, and the least number of such spans.
const EVERY: Duration = Duration::from_secs(5);
const SPANS: u32 = 12;
/// From POST to receipt, for 99 of 100 deliveries to the known destination.
const KNOWN_P99: Duration = Duration::from_millis(500);
/// From POST to receipt, for each first delivery to a destination.
const NEW_WORST: Duration = Duration::from_secs(4);
/// The healthy destination that the server knows, and its tenant.
const KNOWN: &str = "known";

/// How much of it.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Receivers that are slow, each its own destination.
    pub destinations: usize,
    pub per_destination: usize,
    /// The server's slots.
    pub slots: u32,
    /// How long the healthy ones are looked at.
    pub length: Duration,
}

/// The receivers and the server before them.
struct Scene {
    load: Load,
    at: Witness,
    server: Throwaway,
    known: Stream,
    newcomers: Newcomers,
}

/// Runs the drill; true when the promise was kept.
///
/// # Errors
/// [`DrillError`] when it could not be run to its end, which says nothing about the promise.
pub async fn run(voice: &mut Voice, load: Load) -> Result<bool, DrillError> {
    let scene = Scene::set(voice, load).await?;
    scene.pile_up(voice).await?;
    scene.watch(voice).await?;
    scene.judge(voice);
    Ok(voice.verdict("slow receivers keep nobody else waiting, neither known nor new"))
}

impl Scene {
    async fn set(voice: &Voice, load: Load) -> Result<Scene, DrillError> {
        let at = Witness::start(answer).await?;
        let server = Throwaway::with(&[("DUEHOOK_SEND__SLOTS", load.slots.to_string())]).await?;
        let Load { destinations, slots, .. } = load;
        voice.say(&format!("a server (process {}) with {slots} slots", server.process()));
        let client = server.client();
        let slow =
            (0..destinations).map(|n| Destination { name: slow(n), tenant: tenant(n), timeout: TIMEOUT });
        client.make(&at, slow).await?;
        let newcomers = Newcomers::make(client, load.length, &at).await?;
        let known = Stream::to_known(KNOWN, &server, &at).await?;
        voice.say(&format!(
            "{destinations} destinations that take {} s, and 1 healthy one that is known",
            DELAY.as_secs()
        ));
        Ok(Scene { load, at, server, known, newcomers })
    }

    /// Round by round, so that every slow destination has work from the beginning.
    async fn pile_up(&self, voice: &Voice) -> Result<(), DrillError> {
        let Load { destinations, per_destination, .. } = self.load;
        let rounds = (0..per_destination).flat_map(|_| (0..destinations).map(slow));
        self.server.client().post_all(rounds.map(|to| delivery(&to))).await?;
        voice.say(&format!("{} deliveries to the slow ones were accepted", destinations * per_destination));
        Ok(())
    }

    /// Posts to the healthy ones, and waits for what is still on its way.
    async fn watch(&self, voice: &Voice) -> Result<(), DrillError> {
        let end = Instant::now() + self.load.length;
        let going = move || Instant::now() < end;
        let news = async {
            tell(voice, going, || self.standing()).await;
            Ok(())
        };
        tokio::try_join!(self.known.run(BEAT, going), self.newcomers.run(going), news)?;
        let all = async || self.known.all_arrived(&self.at) && self.newcomers.waits(&self.at).missing() == 0;
        wait_until(SETTLE, all).await;
        Ok(())
    }

    fn standing(&self) -> String {
        format!(
            "{} requests to slow ones; known: {}; new: {}",
            self.at.counts("slow-").0,
            self.known.waits(&self.at).so_far(99),
            self.newcomers.waits(&self.at).so_far(90)
        )
    }

    fn judge(&self, voice: &mut Voice) {
        let mut slow: Vec<Duration> = self.at.each("slow-").iter().flatten().map(|seen| seen.at).collect();
        slow.sort_unstable();
        voice.check(
            !slow.is_empty(),
            &format!(
                "{} requests to the slow receivers, at most {} at once ({} slots)",
                slow.len(),
                most_open(&slow, DELAY),
                self.load.slots
            ),
        );
        let known = self.known.waits(&self.at);
        voice.check(
            under(known.percentile(99), KNOWN_P99),
            &format!("the known destination: {} (p99 under {} s)", known.told(99), KNOWN_P99.as_secs_f64()),
        );
        let new = self.newcomers.waits(&self.at);
        voice.check(
            under(new.worst(), NEW_WORST),
            &format!("never seen before: {} (worst under {} s)", new.told(90), NEW_WORST.as_secs()),
        );
    }
}

fn slow(n: usize) -> String {
    format!("slow-{n}")
}

fn answer(name: &str, _at: Duration) -> Answer {
    let good = Answer::status(204);
    if name.starts_with("slow-") { good.after(DELAY) } else { good }
}

/// Healthy destinations that get one delivery each, their first, one after another.
struct Newcomers {
    client: Client,
    every: Duration,
    /// The instant before the POST to each.
    posted: Mutex<Vec<Instant>>,
}

impl Newcomers {
    /// Makes as many as `length` has time for; nothing is sent to them yet.
    async fn make(client: Client, length: Duration, at: &Witness) -> Result<Newcomers, DrillError> {
        let every = EVERY.min(length / SPANS);
        let count = length.as_millis().div_ceil(every.as_millis());
        let tenant = || KNOWN.to_owned();
        let all = (0..count).map(|n| Destination { name: newcomer(n), tenant: tenant(), timeout: TIMEOUT });
        client.make(at, all).await?;
        Ok(Newcomers { client, every, posted: Mutex::default() })
    }

    /// Posts one after every span, the first after the first.
    async fn run(&self, going: impl Fn() -> bool) -> Result<(), DrillError> {
        let mut spans = interval_at(Instant::now() + self.every, self.every);
        spans.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for n in 0.. {
            spans.tick().await;
            if !going() {
                break;
            }
            self.posted.lock().unwrap_or_else(PoisonError::into_inner).push(Instant::now());
            self.client.clone().post(newcomer(n), "first".into()).await?;
        }
        Ok(())
    }

    /// From each POST so far to its first receipt.
    fn waits(&self, at: &Witness) -> Waits {
        let posted = self.posted.lock().unwrap_or_else(PoisonError::into_inner);
        let now = at.time(Instant::now());
        let wait = |(n, from): (u128, &Instant)| {
            let arrived = at.requests(&newcomer(n)).first().map(|seen| seen.at);
            Wait::new(at.time(*from), arrived, now)
        };
        Waits::new((0..).zip(posted.iter()).map(wait))
    }
}

fn newcomer(n: u128) -> String {
    format!("new-{n}")
}
