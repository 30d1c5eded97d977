//! What the receiver can answer, and how it becomes a response.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{HeaderName, HeaderValue, LOCATION, RETRY_AFTER};
use hyper::{Response, StatusCode};

use super::{Dropped, rest};

/// One chunk of a body that never ends.
const CHUNK: Bytes = Bytes::from_static(&[b'.'; 16 * 1024]);

/// What is answered to a request that was read to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Reply {
        status: StatusCode,
        headers: Vec<(HeaderName, HeaderValue)>,
        body: Bytes,
    },
    /// The connection is closed without a byte.
    Drop,
    /// A 200 whose body never ends.
    Endless,
    /// The other answer, so much later.
    After(Duration, Box<Answer>),
}

impl Answer {
    /// A bare status; one that HTTP does not have is 500.
    #[must_use]
    pub fn status(code: u16) -> Answer {
        let status = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Answer::Reply { status, headers: Vec::new(), body: Bytes::new() }
    }

    /// A 429 with this `Retry-After`.
    #[must_use]
    pub fn refuse(retry_after: &str) -> Answer {
        Answer::status(429).with(RETRY_AFTER, retry_after)
    }

    /// A 429 until `wait` from now, as an HTTP date. Dates have whole seconds: rounded up.
    #[must_use]
    pub fn refuse_until(wait: Duration) -> Answer {
        let until = wall_clock() + wait + Duration::from_millis(999);
        Answer::refuse(&httpdate::fmt_http_date(until))
    }

    /// A 307 to `location`.
    #[must_use]
    pub fn redirect(location: &str) -> Answer {
        Answer::status(307).with(LOCATION, location)
    }

    /// This answer, `wait` later.
    #[must_use]
    pub fn after(self, wait: Duration) -> Answer {
        Answer::After(wait, Box::new(self))
    }

    /// This answer with one more header, if it is one that has any and the value can stand there.
    #[must_use]
    pub fn with(mut self, name: HeaderName, value: &str) -> Answer {
        if let (Answer::Reply { headers, .. }, Ok(value)) = (&mut self, HeaderValue::from_str(value)) {
            headers.push((name, value));
        }
        self
    }

    /// Waits where it says so, and makes the response.
    pub(super) async fn respond(self) -> Result<Response<Content>, Dropped> {
        let mut answer = self;
        loop {
            match answer {
                Answer::Reply { status, headers, body } => return Ok(reply(status, headers, body)),
                Answer::Drop => return Err(Dropped),
                Answer::Endless => return Ok(Response::new(Content::Endless)),
                Answer::After(wait, then) => {
                    rest(wait).await;
                    answer = *then;
                }
            }
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Answer::Reply { status, headers, .. } => {
                write!(f, "{}", status.as_u16())?;
                headers.iter().try_for_each(|(name, value)| {
                    write!(f, " {name}: {}", String::from_utf8_lossy(value.as_bytes()))
                })
            }
            Answer::Drop => f.write_str("closed without an answer"),
            Answer::Endless => f.write_str("200 without end"),
            Answer::After(wait, then) => write!(f, "after {} ms: {then}", wait.as_millis()),
        }
    }
}

fn reply(status: StatusCode, headers: Vec<(HeaderName, HeaderValue)>, body: Bytes) -> Response<Content> {
    let mut response = Response::new(Content::Whole(Full::new(body)));
    *response.status_mut() = status;
    for (name, value) in headers {
        response.headers_mut().append(name, value);
    }
    response
}

/// The wall clock: dates in answers and times in printed lines are for other programs and people.
#[expect(clippy::disallowed_methods, reason = "the receiver plays another machine, with its own clock")]
pub(in crate::drill) fn wall_clock() -> SystemTime {
    SystemTime::now()
}

/// The body of an answer.
#[derive(Debug)]
pub(super) enum Content {
    Whole(Full<Bytes>),
    Endless,
}

impl Body for Content {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Content::Whole(whole) => Pin::new(whole).poll_frame(context),
            Content::Endless => Poll::Ready(Some(Ok(Frame::data(CHUNK)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Content::Whole(whole) => whole.is_end_stream(),
            Content::Endless => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Content::Whole(whole) => whole.size_hint(),
            Content::Endless => SizeHint::default(),
        }
    }
}
