//! The room of one listener: its connections, each with a seat that follows what it is at.
//!
//! When all seats are taken, who is to go (see [`seats`](super::seats)) is closed without an
//! answer. Nothing that it has asked has been begun by then, and nothing is afterwards: a request that
//! begins before its body is whole says so ([`AtWork`]).

use std::convert::Infallible;
use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use axum::body::{Body, HttpBody};
use axum::http::{Request, Response};
use bytes::Bytes;
use hyper::body::{Frame, Incoming, SizeHint};
use tokio::task::AbortHandle;

use crate::http::seats::{No, Phase, Seats};

/// Everybody in a listener.
#[derive(Clone, Debug, Default)]
pub(super) struct Room(Arc<Mutex<Inside>>);

#[derive(Debug, Default)]
struct Inside {
    seats: Seats<Option<AbortHandle>>,
    /// Since it was last asked.
    pressed: Pressed,
}

/// What happened for want of seats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pressed {
    /// Connections that were closed for newer ones.
    pub(super) closed: u64,
    /// New connections that found everybody at work.
    pub(super) refused: u64,
}

impl Room {
    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A seat among `most`, someone else's if it must be. None: everybody is at work.
    pub(super) fn enter(&self, most: usize) -> Option<Place> {
        let mut inside = self.inside();
        while inside.seats.len() >= most {
            match inside.seats.make_room() {
                Some(closes) => {
                    inside.pressed.closed += 1;
                    closes.iter().for_each(AbortHandle::abort);
                }
                None => {
                    inside.pressed.refused += 1;
                    return None;
                }
            }
        }
        let no = inside.seats.enter(None);
        Some(Place(Arc::new(Seated { room: self.clone(), no })))
    }

    /// Its task, by which a connection can be closed. One that has ended is not there.
    pub(super) fn seat(&self, no: No, closes: AbortHandle) {
        self.inside().seats.close_by(no, Some(closes));
    }

    /// What happened since it was last asked.
    pub(super) fn pressed(&self) -> Pressed {
        std::mem::take(&mut self.inside().pressed)
    }
}

/// In the extensions of every request: its connection, for who begins before the body is whole.
#[derive(Clone, Debug)]
pub(super) struct AtWork(Place);

impl AtWork {
    /// The request is being worked on from here on, so its connection is not closed for another.
    pub(super) fn begin(&self) {
        // One that has just lost its seat ends with its task.
        let _kept = self.0.turn(Phase::Working);
    }
}

/// The seat of a connection, free once all that is left of the connection is gone.
#[derive(Clone, Debug)]
pub(super) struct Place(Arc<Seated>);

#[derive(Debug)]
struct Seated {
    room: Room,
    no: No,
}

impl Drop for Seated {
    fn drop(&mut self) {
        drop(self.room.inside().seats.leave(self.no));
    }
}

impl Place {
    pub(super) fn no(&self) -> No {
        self.0.no
    }

    fn turn(&self, to: Phase) -> bool {
        self.0.room.inside().seats.turn(self.0.no, to)
    }

    /// The head of a request is whole. Who brings his first body is still a stranger.
    fn asked(&self, with_body: bool) -> bool {
        let mut inside = self.0.room.inside();
        match (inside.seats.phase(self.0.no), with_body) {
            (None, _) => false,
            (Some(_), false) => inside.seats.turn(self.0.no, Phase::Working),
            (Some(Phase::Stranger), true) => true,
            (Some(_), true) => inside.seats.turn(self.0.no, Phase::Sending),
        }
    }

    /// A body is whole, or nobody wants the rest of it.
    fn read(&self) -> bool {
        let mut inside = self.0.room.inside();
        match inside.seats.phase(self.0.no) {
            Some(Phase::Stranger | Phase::Sending) => inside.seats.turn(self.0.no, Phase::Working),
            Some(Phase::Working | Phase::Answering | Phase::Idle) => true,
            None => false,
        }
    }

    /// Answers a request by `answer`, and notes meanwhile what the connection is at.
    pub(super) async fn follow<F>(
        &self,
        mut request: Request<Incoming>,
        answer: impl FnOnce(Request<Followed<Incoming>>) -> F,
    ) -> Result<Response<Followed<Body>>, Infallible>
    where
        F: Future<Output = Response<Body>>,
    {
        let with_body = !request.body().is_end_stream();
        if !self.asked(with_body) {
            // It is about to be closed.
            pending::<()>().await;
        }
        request.extensions_mut().insert(AtWork(self.clone()));
        let place = || self.clone();
        let then: Option<Then> = if with_body { Some(Place::read) } else { None };
        let response = answer(request.map(|body| Followed { body, place: place(), then })).await;
        self.turn(Phase::Answering);
        let then: Option<Then> = Some(|place| place.turn(Phase::Idle));
        Ok(response.map(|body| Followed { body, place: place(), then }))
    }
}

/// What follows the end of a body; false: the connection is about to be closed.
type Then = fn(&Place) -> bool;

/// A body after whose end the connection is at something else.
#[derive(Debug)]
pub(super) struct Followed<B> {
    body: B,
    place: Place,
    /// None: it has ended.
    then: Option<Then>,
}

impl<B> Followed<B> {
    fn end(&mut self) -> bool {
        self.then.take().is_none_or(|then| then(&self.place))
    }
}

impl<B: HttpBody<Data = Bytes> + Unpin> HttpBody for Followed<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if (frame.is_none() || self.body.is_end_stream()) && !self.end() {
            // What is whole now is not to be begun.
            return Poll::Pending;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B> Drop for Followed<B> {
    fn drop(&mut self) {
        self.end();
    }
}
