//! The end of a connection: an answer that was given before its request was read must arrive.
//!
//! Closing a socket with bytes unread resets it, and a client that is still writing then sees a
//! broken pipe in place of the 413 that it was sent. So the sending side is closed first, and
//! what still comes is read and thrown away, within bounds. Decides nothing about requests.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;
use tokio::time::Sleep;

/// Bytes that are read and thrown away: twice the largest body that any route takes, so that who
/// has overlooked a limit can finish. What is longer is cut off.
const MAX_DRAINED: usize = 16 * 1024 * 1024;
/// How long that may take; less than the grace of a shutdown.
const MAX_WAIT: Duration = Duration::from_secs(1);
/// Bytes a read; no more memory than this is held.
const PIECE: usize = 16 * 1024;

/// A connection whose shutdown waits until the client has had its say.
#[derive(Debug)]
pub(super) struct Lingering<S> {
    stream: S,
    /// Once the listener stops, nobody is waited for.
    stop: watch::Receiver<()>,
    /// From the moment in which the sending side was closed.
    farewell: Option<Farewell>,
}

/// How much more is listened to.
#[derive(Debug)]
struct Farewell {
    left: usize,
    until: Pin<Box<Sleep>>,
}

impl<S> Lingering<S> {
    pub(super) fn new(stream: S, stop: watch::Receiver<()>) -> Lingering<S> {
        Lingering { stream, stop, farewell: None }
    }
}

impl Farewell {
    #[expect(clippy::disallowed_methods, reason = "a client that says nothing must be left in the end")]
    fn new() -> Farewell {
        Farewell { left: MAX_DRAINED, until: Box::pin(tokio::time::sleep(MAX_WAIT)) }
    }

    /// Reads until the client closes, which is the usual and immediate end, or a bound is met.
    fn poll<S>(&mut self, stream: &mut S, context: &mut Context<'_>) -> Poll<()>
    where
        S: AsyncRead + Unpin,
    {
        let mut piece = [0; PIECE];
        while self.left > 0 {
            let mut read = ReadBuf::new(&mut piece);
            match Pin::new(&mut *stream).poll_read(context, &mut read) {
                Poll::Ready(Ok(())) if !read.filled().is_empty() => {
                    self.left = self.left.saturating_sub(read.filled().len());
                }
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => return self.until.as_mut().poll(context),
            }
        }
        Poll::Ready(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Lingering<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Lingering<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Lingering { stream, stop, farewell } = &mut *self;
        if farewell.is_none() {
            ready!(Pin::new(&mut *stream).poll_shutdown(context))?;
        }
        // Its end, which is the sender's, shows as an error.
        if stop.has_changed().is_err() {
            return Poll::Ready(Ok(()));
        }
        farewell.get_or_insert_with(Farewell::new).poll(stream, context).map(Ok)
    }
}
