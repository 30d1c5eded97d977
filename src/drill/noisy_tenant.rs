//! Drill: one tenant posts more than the server can send for a while, and another, who posts a
//! little, must not wait behind it.

use std::cell::Cell;
use std::time::Duration;

use tokio::time::Instant;

use super::load::client::{Destination, delivery};
use super::load::stream::Stream;
use super::load::waits::under;
use super::load::witness::Witness;
use super::load::{SETTLE, tell};
use super::receiver::Answer;
use super::throwaway::{DrillError, Throwaway};
use super::{Voice, wait_until};

/// What the noisy tenant's receivers take: a slot is worth something.
const DELAY: Duration = Duration::from_millis(20);
/// For the whole attempt.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Between two deliveries of the quiet tenant: 10 a second.
const BEAT: Duration = Duration::from_millis(100);
/// From POST to receipt, for 95 of 100 deliveries of the quiet tenant.
const QUIET_P95: Duration = Duration::from_millis(500);
/// The quiet tenant, and its destination.
const QUIET: &str = "quiet";

/// How much of it.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Destinations of the noisy tenant.
    pub destinations: usize,
    /// Its deliveries, over all of them.
    pub deliveries: usize,
    /// The server's slots.
    pub slots: u32,
    /// How long it is looked at if the noise does not end before.
    pub length: Duration,
}

/// The receivers and the server before them.
struct Scene {
    load: Load,
    at: Witness,
    server: Throwaway,
    quiet: Stream,
    /// Since when there is noise, and how long it took to be sent, once it has.
    since: Instant,
    drained: Cell<Option<Duration>>,
}

/// Runs the drill; true when the promise was kept.
///
/// # Errors
/// [`DrillError`] when it could not be run to its end, which says nothing about the promise.
pub async fn run(voice: &mut Voice, load: Load) -> Result<bool, DrillError> {
    let scene = Scene::set(voice, load).await?;
    scene.act(voice).await?;
    scene.judge(voice);
    Ok(voice.verdict("a tenant with a backlog keeps no other tenant waiting"))
}

impl Scene {
    async fn set(voice: &Voice, load: Load) -> Result<Scene, DrillError> {
        let at = Witness::start(answer).await?;
        let server = Throwaway::with(&[("DUEHOOK_SEND__SLOTS", load.slots.to_string())]).await?;
        let Load { destinations, slots, .. } = load;
        voice.say(&format!("a server (process {}) with {slots} slots", server.process()));
        let noisy = |n| Destination { name: format!("noisy-{n}"), tenant: "noisy".into(), timeout: TIMEOUT };
        server.client().make(&at, (0..destinations).map(noisy)).await?;
        let quiet = Stream::to_known(QUIET, &server, &at).await?;
        voice.say(&format!("{destinations} destinations of one tenant, and 1 of another that is known"));
        Ok(Scene { load, at, server, quiet, since: Instant::now(), drained: Cell::default() })
    }

    /// The noise and the quiet at once, for as long as there is a backlog.
    async fn act(&self, voice: &Voice) -> Result<(), DrillError> {
        let going = || self.drained().is_none() && self.since.elapsed() < self.load.length;
        let news = async {
            tell(voice, going, || self.standing()).await;
            Ok(())
        };
        tokio::try_join!(self.make_noise(voice), self.quiet.run(BEAT, going), news)?;
        wait_until(SETTLE, async || self.quiet.all_arrived(&self.at)).await;
        Ok(())
    }

    async fn make_noise(&self, voice: &Voice) -> Result<(), DrillError> {
        let Load { destinations, deliveries, .. } = self.load;
        let all = (0..deliveries).map(|n| delivery(&format!("noisy-{}", n % destinations)));
        self.server.client().post_all(all).await?;
        let seconds = self.since.elapsed().as_secs_f64();
        voice
            .say(&format!("all {deliveries} deliveries of the noisy tenant were accepted in {seconds:.1} s"));
        Ok(())
    }

    /// How long it took until everything had reached the noisy tenant's receivers.
    fn drained(&self) -> Option<Duration> {
        if self.drained.get().is_none() && self.at.counts("noisy-").0 >= self.load.deliveries {
            self.drained.set(Some(self.since.elapsed()));
        }
        self.drained.get()
    }

    fn standing(&self) -> String {
        format!(
            "noisy: {} of {} sent; quiet: {}",
            self.at.counts("noisy-").0,
            self.load.deliveries,
            self.quiet.waits(&self.at).so_far(95)
        )
    }

    fn judge(&self, voice: &mut Voice) {
        let (sent, deliveries) = (self.at.counts("noisy-").0, self.load.deliveries);
        let time = self.drained().unwrap_or(self.load.length);
        let noise = match self.drained() {
            Some(_) => format!("the backlog of {deliveries} lasted {:.1} s", time.as_secs_f64()),
            None => format!("{sent} of {deliveries} were sent within {} s", time.as_secs()),
        };
        voice.check(sent > 0, &format!("{noise}: {:.0} a second", sent as f64 / time.as_secs_f64()));
        let quiet = self.quiet.waits(&self.at);
        voice.check(
            under(quiet.percentile(95), QUIET_P95),
            &format!(
                "the quiet tenant meanwhile: {} (p95 under {} s)",
                quiet.told(95),
                QUIET_P95.as_secs_f64()
            ),
        );
    }
}

fn answer(name: &str, _at: Duration) -> Answer {
    let good = Answer::status(204);
    if name == QUIET { good } else { good.after(DELAY) }
}
