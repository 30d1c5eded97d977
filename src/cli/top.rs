//! `top`: the totals and who has most, drawn anew once a second until it is ended.
//!
//! On a terminal each frame is written over the one before, on the screen that editors use, so that
//! what stood there comes back. Anywhere else one frame is one block of text.

use std::io::{IsTerminal as _, Read as _, Write as _};
use std::time::Duration;

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use super::args::Top;
use super::client::Client;
use super::fault::Fault;
use super::output::{Output, size, write};
use super::stats;

/// Between two frames.
const EVERY: Duration = Duration::from_secs(1);
/// Destinations of a frame on what has no height.
const ROWS: u64 = 10;
/// To the other screen with no cursor, and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
/// To the upper left corner; the rest of a line; the rest of the screen.
const HOME: &str = "\x1b[H";
const REST_OF_LINE: &str = "\x1b[K";
const REST_OF_SCREEN: &str = "\x1b[J";

/// Draws until `q` or ctrl-c; once, if that is asked for or if nobody looks.
pub(super) async fn run(client: &Client, output: &Output, asked: Top) -> Result<(), Fault> {
    if output.json || asked.once || !std::io::stdout().is_terminal() {
        return write(&frame(client, output).await?);
    }
    // The first frame before the screen is taken: what goes wrong is told where it can be read.
    let first = frame(client, output).await?;
    let _screen = Screen::take();
    draw(&first);
    watch(client, output).await
}

async fn watch(client: &Client, output: &Output) -> Result<(), Fault> {
    let (mut clock, mut keys) = (interval(EVERY), Keys::listen());
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    clock.tick().await;
    loop {
        tokio::select! {
            () = keys.end() => return Ok(()),
            _ = tokio::signal::ctrl_c() => return Ok(()),
            _ = clock.tick() => draw(&frame(client, &Output::new(output.json, false)).await?),
        }
    }
}

/// What is shown at one moment.
async fn frame(client: &Client, output: &Output) -> Result<String, Fault> {
    if output.json {
        return stats::document(client).await;
    }
    let totals = stats::totals_text(client).await?;
    let destinations = stats::destinations_text(client, output, rows(size(), &totals)).await?;
    Ok(format!("{totals}\n\n{destinations}"))
}

/// Rows for destinations: what the totals leave of the screen.
fn rows(size: Option<(u16, u16)>, totals: &str) -> u64 {
    /// The empty line below the totals, the head of the list, and the line of the cursor.
    const BETWEEN: u64 = 3;
    let taken = totals.lines().count() as u64 + BETWEEN;
    size.map_or(ROWS, |(_, high)| u64::from(high).saturating_sub(taken).clamp(1, 1_000))
}

/// Writes a frame over the one before, cut to the screen's height.
fn draw(text: &str) {
    let high = size().map_or(usize::MAX, |(_, high)| usize::from(high.saturating_sub(1)));
    let mut screen = HOME.to_owned();
    for line in text.lines().take(high) {
        screen += line;
        screen += REST_OF_LINE;
        screen += "\r\n";
    }
    screen += REST_OF_SCREEN;
    show(&screen);
}

/// A terminal that is gone ends the process by itself.
fn show(text: &str) {
    let mut out = anstream::stdout();
    let _gone = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// The screen and the keyboard, as long as this is kept.
struct Screen {
    before: Option<Termios>,
}

impl Screen {
    /// Keys are not echoed and come one by one from now on.
    fn take() -> Screen {
        show(ENTER);
        let before = tcgetattr(std::io::stdin()).ok();
        if let Some(mut modes) = before.clone() {
            modes.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
            let _no_terminal = tcsetattr(std::io::stdin(), OptionalActions::Now, &modes);
        }
        Screen { before }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _no_terminal = tcsetattr(std::io::stdin(), OptionalActions::Now, before);
        }
        show(LEAVE);
    }
}

/// The keyboard, if there is one.
struct Keys(Option<mpsc::Receiver<()>>);

impl Keys {
    /// Listens on a thread of its own, which ends with the process: a read of a terminal cannot be
    /// taken back.
    fn listen() -> Keys {
        if !std::io::stdin().is_terminal() {
            return Keys(None);
        }
        let (tell, heard) = mpsc::channel(1);
        let listening = std::thread::Builder::new().spawn(move || {
            until_q();
            let _ended = tell.blocking_send(());
        });
        Keys(listening.is_ok().then_some(heard))
    }

    /// Waits for `q`, or for the end of the input.
    async fn end(&mut self) {
        match &mut self.0 {
            Some(heard) => drop(heard.recv().await),
            None => std::future::pending().await,
        }
    }
}

fn until_q() {
    let keys = std::io::stdin().lock().bytes();
    let is_end = |key: &u8| matches!(key, b'q' | b'Q' | 0x04);
    let _end = keys.map_while(Result::ok).find(is_end);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations_have_what_the_totals_leave() {
        let totals = "head\n\nCLASS\na\nb\nc\n\nforecast";
        let check = |size, want: u64| assert_eq!(rows(size, totals), want, "{size:?}");
        check(Some((80, 30)), 19);
        check(Some((80, 5)), 1);
        check(None, ROWS);
    }
}
