//! The body of a request, which knows whether a connection has taken it up.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

/// Set once a connection has begun with the request. While it is not, not a byte has left.
#[derive(Clone, Debug, Default)]
pub struct Touched(Arc<AtomicBool>);

impl Touched {
    /// True from the moment in which the request may have been written, in part at least.
    #[must_use]
    pub fn get(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    fn set(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// The bytes of one request. It cannot be read twice, so no layer of the client can send a
/// request again by itself.
pub struct Letter {
    bytes: Option<Bytes>,
    touched: Touched,
}

impl Letter {
    /// A body that reports to `touched`.
    #[must_use]
    pub fn new(bytes: Bytes, touched: &Touched) -> Letter {
        Letter { bytes: Some(bytes), touched: touched.clone() }
    }
}

impl fmt::Debug for Letter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Letter").field("touched", &self.touched).finish_non_exhaustive()
    }
}

impl Body for Letter {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.touched.set();
        Poll::Ready(self.bytes.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    /// The first thing a connection asks when it takes up a request, before it writes the head:
    /// for HTTP/1.1 and 2 alike, and for an empty body too. An empty one is not at its end until
    /// it was read, so that its request has a `Content-Length: 0`.
    fn is_end_stream(&self) -> bool {
        self.touched.set();
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asking_for_the_length_touches_nothing_and_asking_for_the_end_does() {
        for text in ["", "{}"] {
            let touched = Touched::default();
            let letter = Letter::new(Bytes::from_static(text.as_bytes()), &touched);
            assert_eq!(letter.size_hint().exact(), Some(text.len() as u64));
            assert!(!touched.get());
            assert!(!letter.is_end_stream());
            assert!(touched.get());
        }
    }
}
