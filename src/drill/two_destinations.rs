//! Drill: a receiver that says 429 is left alone until the time it named, and one beside it
//! does not notice.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval};

use super::receiver::{Answer, Receiver, Record, Script};
use super::throwaway::{DrillError, Throwaway};
use super::{Voice, wait_until};

/// What A asks for with its 429.
const HOLD: Duration = Duration::from_secs(6);
/// Deliveries to A, the one that meets the 429 included.
const TO_A: usize = 50;
/// Between two deliveries to B: 20 a second.
const BEAT: Duration = Duration::from_millis(50);
/// From POST to receipt, for 95 of 100 deliveries to B.
const B_P95: Duration = Duration::from_millis(100);
/// Beyond the hold: the jitter that may be added (a tenth), and the reopening by 1, 2, 4, …
const AFTER_HOLD: Duration = Duration::from_secs(15);
/// For what should take milliseconds.
const SOON: Duration = Duration::from_secs(10);
/// Between two lines about how things stand.
const NEWS: Duration = Duration::from_secs(1);

/// What B was sent: the number of each delivery and the instant before its POST.
type Posted = Mutex<Vec<Instant>>;

/// The two receivers and the server between.
struct Scene {
    server: Throwaway,
    a: Receiver,
    b: Receiver,
    posted: Posted,
}

/// Runs the drill; true when the promise was kept.
///
/// # Errors
/// [`DrillError`] when it could not be run to its end, which says nothing about the promise.
pub async fn run(voice: &mut Voice) -> Result<bool, DrillError> {
    let scene = Scene::set(voice).await?;
    // The stream to B goes on for as long as A is looked at, and not longer.
    tokio::select! {
        ended = scene.stream_to_b() => ended?,
        ended = scene.act(voice) => ended?,
    }
    scene.judge(voice).await?;
    Ok(voice.verdict("a 429 holds back its own destination until the time it named, and no other"))
}

impl Scene {
    async fn set(voice: &Voice) -> Result<Scene, DrillError> {
        let refuse_once = Script::Decide(Box::new(|request| match request.n {
            1 => Answer::refuse(&HOLD.as_secs().to_string()),
            _ => Answer::status(204),
        }));
        let a = Receiver::start(refuse_once, Record::Digests).await.map_err(DrillError::Receiver)?;
        let b = Script::List(vec![Answer::status(204)]);
        let b = Receiver::start(b, Record::Digests).await.map_err(DrillError::Receiver)?;
        let server = Throwaway::start().await?;
        server.destination("a", &a.url("/a")).await?;
        server.destination("b", &b.url("/b")).await?;
        voice.say(&format!("a server (process {}) and two receivers, A and B", server.process()));
        Ok(Scene { server, a, b, posted: Posted::default() })
    }

    /// Posts to B at a steady beat; ends only with an error.
    async fn stream_to_b(&self) -> Result<(), DrillError> {
        let mut beat = interval(BEAT);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for n in 0.. {
            beat.tick().await;
            self.posted.lock().expect("no holder panics").push(Instant::now());
            let reply = self.server.post("b", &key_of_b(n), b"to B".to_vec()).await?;
            if reply.status != 202 {
                return Err(DrillError::Refused(reply.json.to_string()));
            }
        }
        Ok(())
    }

    /// One delivery meets the 429, 49 more wait behind it; then time passes.
    async fn act(&self, voice: &Voice) -> Result<(), DrillError> {
        self.to_a(0).await?;
        if !wait_until(SOON, async || self.a.count() >= 1).await {
            return Err(DrillError::Refused("the first delivery never reached A".into()));
        }
        voice.say(&format!("A answered 429, Retry-After: {}", HOLD.as_secs()));
        for n in 1..TO_A {
            self.to_a(n).await?;
        }
        voice.say(&format!("{} more deliveries to A were accepted and wait", TO_A - 1));
        self.watch(voice).await;
        Ok(())
    }

    async fn to_a(&self, n: usize) -> Result<(), DrillError> {
        let reply = self.server.post("a", &format!("a-{n}"), b"to A".to_vec()).await?;
        if reply.status == 202 { Ok(()) } else { Err(DrillError::Refused(reply.json.to_string())) }
    }

    /// Tells how things stand until A has everything or its time is over.
    async fn watch(&self, voice: &Voice) {
        let everything = TO_A as u64 + 1;
        let end = Instant::now() + HOLD + HOLD / 10 + AFTER_HOLD;
        let mut news = interval(NEWS);
        while Instant::now() < end && self.a.count() < everything {
            news.tick().await;
            voice.say(&self.standing());
            wait_until(NEWS, async || self.a.count() >= everything).await;
        }
    }

    fn standing(&self) -> String {
        let refused = self.a.received().first().map(|first| self.a.started() + first.at);
        let left = refused.map_or(Duration::ZERO, |at| (at + HOLD).saturating_duration_since(Instant::now()));
        let held = match left.is_zero() {
            true => "A may be asked again".to_owned(),
            false => format!("A wants {:.1} s more without one", left.as_secs_f64()),
        };
        format!("requests so far: A {}, B {}; {held}", self.a.count(), self.b.count())
    }

    async fn judge(&self, voice: &mut Voice) -> Result<(), DrillError> {
        let requests = self.a.received();
        let refused_at = requests.first().map_or(Duration::ZERO, |first| first.at);
        let early = requests.iter().skip(1).filter(|one| one.at < refused_at + HOLD).count();
        let second = requests.get(1).map(|one| one.at.saturating_sub(refused_at).as_secs_f64());
        let second =
            second.map_or("none came".into(), |seconds| format!("the next came after {seconds:.2} s"));
        voice.check(
            early == 0,
            &format!("{early} requests to A inside the {} s it asked for ({second})", HOLD.as_secs()),
        );

        wait_until(SOON, async || self.server.delivered("a").await.is_ok_and(|count| count >= TO_A)).await;
        let delivered = self.server.delivered("a").await?;
        let keys: BTreeSet<_> = requests.iter().skip(1).filter_map(|one| one.key()).collect();
        voice.check(
            delivered == TO_A && keys.len() == TO_A && requests.len() == TO_A + 1,
            &format!(
                "{delivered} of {TO_A} delivered to A afterwards, in {} requests",
                requests.len() - usize::from(!requests.is_empty())
            ),
        );
        self.judge_b(voice).await;
        Ok(())
    }

    async fn judge_b(&self, voice: &mut Voice) {
        let posted = self.posted.lock().expect("no holder panics").clone();
        // The last one may have been cut off in the middle of its POST.
        let whole = posted.len().saturating_sub(1);
        wait_until(SOON, async || self.b.count() >= whole as u64).await;
        let mut waits = self.waits_of_b(&posted[..whole]);
        waits.sort_unstable();
        let p95 = waits.get((waits.len() * 95).div_ceil(100).saturating_sub(1)).copied();
        let (p95, most) = (p95.unwrap_or(Duration::MAX), waits.last().copied().unwrap_or_default());
        voice.check(
            waits.len() == whole && p95 < B_P95,
            &format!(
                "{} of {whole} to B meanwhile; from POST to receipt p95 {:.1} ms (under {} ms), longest {:.1} ms",
                waits.len(),
                p95.min(Duration::from_secs(3600)).as_secs_f64() * 1000.0,
                B_P95.as_millis(),
                most.as_secs_f64() * 1000.0
            ),
        );
    }

    /// From POST to first receipt, of those that were received.
    fn waits_of_b(&self, posted: &[Instant]) -> Vec<Duration> {
        let received = self.b.received();
        let mut arrivals = std::collections::BTreeMap::new();
        for one in &received {
            arrivals.entry(one.key().unwrap_or_default()).or_insert(self.b.started() + one.at);
        }
        let wait = |(n, at): (usize, &Instant)| {
            let arrived = arrivals.get(key_of_b(n).as_str())?;
            Some(arrived.saturating_duration_since(*at))
        };
        posted.iter().enumerate().filter_map(wait).collect()
    }
}

fn key_of_b(n: usize) -> String {
    format!("b-{n}")
}
