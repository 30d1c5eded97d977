//! Drill: one key, however often it is posted, is one delivery; and whatever happens on the
//! way, each attempt carries the same key and the same bytes.

use std::collections::BTreeSet;
use std::time::Duration;

use super::receiver::{Answer, Received, Receiver, Record, Script};
use super::throwaway::{DrillError, Reply, Throwaway};
use super::{Voice, wait_until};

/// POSTs of one key at the same moment.
const AT_ONCE: usize = 50;
/// Times that the second receiver reads a request and closes without a byte.
const DROPS: u64 = 2;
/// For what should take milliseconds, and for the failures that come back within one.
const SOON: Duration = Duration::from_secs(15);
/// Bytes that no text is.
const ODD_BYTES: &[u8] = b"{\"a\" :  1}\r\n\0\xFF\xFE end ";

/// The receivers and the server between.
struct Scene {
    server: Throwaway,
    steady: Receiver,
    dropping: Receiver,
}

/// Runs the drill; true when the promise was kept.
///
/// # Errors
/// [`DrillError`] when it could not be run to its end, which says nothing about the promise.
pub async fn run(voice: &mut Voice) -> Result<bool, DrillError> {
    let scene = Scene::set(voice).await?;
    scene.one_key_at_once(voice).await?;
    scene.another_body(voice).await?;
    scene.dropped_answers(voice).await?;
    Ok(voice.verdict("one key is one delivery, with the same key and bytes in every attempt"))
}

impl Scene {
    async fn set(voice: &Voice) -> Result<Scene, DrillError> {
        let always = Script::List(vec![Answer::status(204)]);
        let steady = Receiver::start(always, Record::Bodies).await.map_err(DrillError::Receiver)?;
        let drops =
            Script::Decide(Box::new(
                |request: &Received| {
                    if request.n <= DROPS { Answer::Drop } else { Answer::status(204) }
                },
            ));
        let dropping = Receiver::start(drops, Record::Bodies).await.map_err(DrillError::Receiver)?;
        let server = Throwaway::start().await?;
        server.destination("steady", &steady.url("/")).await?;
        server.destination("dropping", &dropping.url("/")).await?;
        voice.say(&format!("a server (process {}) and two receivers", server.process()));
        Ok(Scene { server, steady, dropping })
    }

    async fn one_key_at_once(&self, voice: &mut Voice) -> Result<(), DrillError> {
        voice.say(&format!("{AT_ONCE} POSTs of one key at once"));
        let replies = self.post_at_once().await?;
        let ids: BTreeSet<&str> = replies.iter().map(|reply| reply.text("id")).collect();
        let of = |status: u16| replies.iter().filter(|reply| reply.status == status).count();
        let (new, repeats) = (of(202), of(200));
        voice.check(
            new == 1 && repeats == AT_ONCE - 1 && ids.len() == 1,
            &format!("{new} accepted as new, {repeats} answered as duplicates, {} id", ids.len()),
        );
        let id = ids.first().copied().unwrap_or_default();
        let outcome = self.outcome(id).await;
        let count = self.steady.count();
        voice.check(outcome == "delivered" && count == 1, &format!("{outcome} in {count} request"));
        let again = self.server.post("steady", "one", ODD_BYTES.to_vec()).await?;
        let same = again.status == 200 && again.text("id") == id;
        voice.check(
            same,
            &format!("a repeat after the end: {}, duplicate {}", again.status, again.json["duplicate"]),
        );
        Ok(())
    }

    /// All requests are on their way before the first is answered.
    async fn post_at_once(&self) -> Result<Vec<Reply>, DrillError> {
        let mut posts: Vec<_> =
            (0..AT_ONCE).map(|_| Box::pin(self.server.post("steady", "one", ODD_BYTES.to_vec()))).collect();
        let mut replies = Vec::new();
        std::future::poll_fn(|context| {
            posts.retain_mut(|post| match post.as_mut().poll(context) {
                std::task::Poll::Ready(reply) => {
                    replies.push(reply);
                    false
                }
                std::task::Poll::Pending => true,
            });
            if posts.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
        replies.into_iter().collect()
    }

    async fn another_body(&self, voice: &mut Voice) -> Result<(), DrillError> {
        let reply = self.server.post("steady", "one", b"another body".to_vec()).await?;
        let (status, code) = (reply.status, reply.text("code"));
        voice.check(
            status == 409 && code == "key_reused",
            &format!("the key with another body: {status} {code}"),
        );
        Ok(())
    }

    async fn dropped_answers(&self, voice: &mut Voice) -> Result<(), DrillError> {
        voice.say(&format!("a receiver reads the request and closes without an answer, {DROPS} times"));
        let reply = self.server.post("dropping", "two", ODD_BYTES.to_vec()).await?;
        let outcome = self.outcome(reply.text("id")).await;
        let requests = self.dropping.received();
        let same = requests.iter().all(|one| one.key() == Some("two") && one.body == ODD_BYTES);
        voice.check(
            outcome == "delivered" && requests.len() as u64 == DROPS + 1,
            &format!("{outcome} in {} requests", requests.len()),
        );
        voice.check(same && !requests.is_empty(), "the same key and the same bytes in each of them");
        let numbers: Vec<u32> = requests.iter().filter_map(Received::attempt).collect();
        let rising = numbers.len() == requests.len() && numbers.is_sorted_by(|a, b| a < b);
        voice.check(rising, &format!("attempt numbers {numbers:?}"));
        Ok(())
    }

    /// The outcome of a delivery once it has one; what it is in the meantime after [`SOON`].
    async fn outcome(&self, id: &str) -> String {
        let ended = async || self.server.delivery(id).await.is_ok_and(|one| one.text("state") == "terminal");
        wait_until(SOON, ended).await;
        match self.server.delivery(id).await {
            Ok(one) if one.text("state") == "terminal" => one.text("outcome").to_owned(),
            Ok(one) => one.text("state").to_owned(),
            Err(error) => error.to_string(),
        }
    }
}
