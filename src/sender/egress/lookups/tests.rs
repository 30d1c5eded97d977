//! Who gets a thread when names do not answer. What is asked here answers by its first letters.

use std::sync::Condvar;
use std::task::{Context, Waker};

use super::*;

/// `dead` names say nothing until they are let go, and then that they are not known; `bad` ones say so
/// at once. All others have an address.
#[derive(Debug, Default)]
struct Script {
    state: Mutex<State>,
    bell: Condvar,
}

#[derive(Debug, Default)]
struct State {
    asked: Vec<String>,
    hanging: usize,
    let_go: bool,
}

impl Ask for Arc<Script> {
    fn ask(&self, name: &str) -> io::Result<Vec<SocketAddr>> {
        let mut state = self.state.lock().unwrap();
        state.asked.push(name.to_owned());
        self.bell.notify_all();
        if name.starts_with("dead") {
            state.hanging += 1;
            let mut state = self.bell.wait_while(state, |state| !state.let_go).unwrap();
            state.hanging -= 1;
            return Err(io::ErrorKind::TimedOut.into());
        }
        if name.starts_with("bad") { Err(io::ErrorKind::NotFound.into()) } else { Ok(vec![ADDRESS]) }
    }
}

const ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

impl Script {
    fn start() -> (Arc<Script>, Arc<Lookups>) {
        let script = Arc::new(Script::default());
        (Arc::clone(&script), Arc::new(Lookups::by(Box::new(script))))
    }

    fn wait_for(&self, wanted: impl Fn(&State) -> bool) {
        drop(self.bell.wait_while(self.state.lock().unwrap(), |state| !wanted(state)).unwrap());
    }

    fn asked(&self, name: &str) -> usize {
        self.state.lock().unwrap().asked.iter().filter(|asked| *asked == name).count()
    }

    fn let_go(&self) {
        self.state.lock().unwrap().let_go = true;
        self.bell.notify_all();
    }
}

/// A test that fails must not leave threads that hang.
struct Ended(Arc<Script>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.let_go();
    }
}

type Finding = std::pin::Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;

/// A look-up that has been asked for and has no answer yet.
fn pending(lookups: &Arc<Lookups>, name: impl Into<String>) -> Finding {
    let mut finding: Finding = Box::pin(Arc::clone(lookups).find(name.into()));
    assert!(finding.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    finding
}

fn pending_dead(lookups: &Arc<Lookups>, count: usize) -> Vec<Finding> {
    (0..count).map(|n| pending(lookups, format!("dead{n}.org"))).collect()
}

async fn find(lookups: &Arc<Lookups>, name: &str) -> io::Result<Vec<SocketAddr>> {
    let finding = Arc::clone(lookups).find(name.to_owned());
    tokio::time::timeout(std::time::Duration::from_secs(60), finding).await.expect("it gets a thread")
}

/// What this is for: the file is read, whatever the name servers do.
#[test]
fn the_blocking_threads_of_the_runtime_stay_free() {
    let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
    let (script, lookups) = Script::start();
    let _ended = Ended(Arc::clone(&script));
    let _dead = pending_dead(&lookups, 8);
    script.wait_for(|state| state.hanging == 8);
    assert_eq!(runtime.block_on(async { tokio::task::spawn_blocking(|| 7).await.unwrap() }), 7);
}

#[tokio::test]
async fn one_name_has_one_look_up_and_all_get_what_it_finds() {
    let (script, lookups) = Script::start();
    let _ended = Ended(Arc::clone(&script));
    let all: Vec<_> = (0..50).map(|_| pending(&lookups, "dead.org")).collect();
    script.wait_for(|state| state.hanging == 1);
    assert_eq!(find(&lookups, "good.org").await.unwrap(), [ADDRESS]);
    script.let_go();
    for finding in all {
        assert_eq!(finding.await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
    assert_eq!(script.asked("dead.org"), 1);
    assert!(find(&lookups, "dead.org").await.is_err(), "nothing is kept");
    assert_eq!(script.asked("dead.org"), 2);
}

#[tokio::test]
async fn dead_names_leave_threads_to_those_that_answer() {
    let (script, lookups) = Script::start();
    let _ended = Ended(Arc::clone(&script));
    find(&lookups, "good.org").await.unwrap();
    assert!(find(&lookups, "bad.org").await.is_err());
    let dead = pending_dead(&lookups, MAX_THREADS + 50);
    script.wait_for(|state| state.hanging == MAX_STRANGE);
    for _ in 0..3 {
        assert_eq!(find(&lookups, "good.org").await.unwrap(), [ADDRESS]);
    }
    // What is new or had no answer waits for its turn, and has it when the dead ones are given up.
    let waiting = ["new.org", "bad.org"].map(|name| pending(&lookups, name));
    assert_eq!((script.asked("new.org"), script.asked("bad.org")), (0, 1));
    script.let_go();
    let [new, bad] = waiting;
    assert_eq!(new.await.unwrap(), [ADDRESS]);
    assert!(bad.await.is_err());
    for finding in dead {
        assert!(finding.await.is_err());
    }
}

#[tokio::test]
async fn a_name_that_falls_silent_is_strange_again() {
    let (script, lookups) = Script::start();
    let _ended = Ended(Arc::clone(&script));
    for (name, known) in [("good.org", true), ("bad.org", false), ("worse.org", true)] {
        drop(find(&lookups, name).await);
        assert_eq!(lookups.lock().known.contains(name), known, "{name}");
    }
    let worse = Turn { name: "worse.org".into(), is_strange: false };
    lookups.lock().end(worse, Err(io::ErrorKind::TimedOut));
    assert!(!lookups.lock().known.contains("worse.org"));
}

#[tokio::test]
async fn a_name_that_nobody_waits_for_is_not_asked_for() {
    let (script, lookups) = Script::start();
    let _ended = Ended(Arc::clone(&script));
    let _dead = pending_dead(&lookups, MAX_STRANGE);
    script.wait_for(|state| state.hanging == MAX_STRANGE);
    drop(pending(&lookups, "left.org"));
    let (first, second) = (pending(&lookups, "joined.org"), pending(&lookups, "joined.org"));
    drop(first);
    script.let_go();
    assert_eq!(second.await.unwrap(), [ADDRESS]);
    assert_eq!((script.asked("left.org"), script.asked("joined.org")), (0, 1));
    assert!(!lookups.lock().asked.contains_key("left.org"));
}

#[test]
fn without_a_thread_nobody_is_left_waiting() {
    let mut desk = Desk::default();
    let (answer, has_room) = desk.order("a.org".into());
    desk.threads += 1;
    desk.lost_thread();
    assert!(has_room && answer.has_changed().is_err(), "the answer is that there is none");
    assert!(desk.asked.is_empty() && desk.take().is_none());
}

#[test]
fn what_is_known_is_bounded() {
    let mut desk = Desk::default();
    for n in 0..MAX_KNOWN + 10 {
        desk.learn(format!("{n}.org"));
    }
    assert_eq!(desk.known.len(), MAX_KNOWN);
}
