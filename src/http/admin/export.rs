//! The export of a drained server: ndjson, page after page as fast as the client takes it.
//!
//! Each page is read in a short transaction of its own and written out before the next one is
//! read, so that neither the file nor memory grows with what there is.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::{Body, HttpBody};
use axum::extract::State;
use axum::http::{HeaderValue, Response, Uri, header};
use bytes::Bytes;
use hyper::body::Frame;
use serde::Serialize;

use crate::http::app::{Answered, App};
use crate::http::dto::hand_over::{DeliveryLine, DestinationLine, EndLine, HeaderLine, LeftObject};
use crate::http::error::{Code, Problem};
use crate::http::query;
use crate::model::{DeliveryId, DestNo};
use crate::store::{Claims, LeftBehind, Snapshot, StoreError};

/// A page is full with so many bytes: a few milliseconds of reading.
const PAGE_BYTES: usize = 1 << 20;
/// Deliveries between two looks at the time of a page.
const ASK_EVERY: u64 = 64;
const NDJSON: HeaderValue = HeaderValue::from_static("application/x-ndjson");

/// `GET /v1/export`.
pub async fn export(State(app): State<Arc<App>>, uri: Uri) -> Answered {
    query::none(&uri)?;
    drained(&app)?;
    let body = Body::new(Export { app, come: Come::default(), reading: None });
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_TYPE, NDJSON);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// 409 while anything could still change: an export is of what is final here.
fn drained(app: &App) -> Result<(), Problem> {
    let live = app.handle.live();
    if live.claims == Claims::Drained && live.in_flight == 0 {
        return Ok(());
    }
    let detail = match live.claims {
        Claims::Drained => "requests are still in flight: POST /v1/drain again and wait for them",
        Claims::Running | Claims::Stopped | Claims::Restored | Claims::Moved => {
            "an export is of a drained server: POST /v1/drain (duehook drain) first"
        }
    };
    Err(Problem::new(Code::NotDrained, detail))
}

/// How far an export has come.
#[derive(Clone, Copy, Debug, Default)]
struct Come {
    at: Place,
    lines: EndLine,
}

#[derive(Clone, Copy, Debug, Default)]
enum Place {
    #[default]
    Header,
    Destinations(DestNo),
    Deliveries(Option<DeliveryId>),
    Done,
}

type Page = Result<(Bytes, Come), Problem>;

/// The body of the answer: reads a page when the one before was taken.
struct Export {
    app: Arc<App>,
    come: Come,
    reading: Option<Pin<Box<dyn Future<Output = Page> + Send>>>,
}

/// Why an export breaks off: what was sent has no end line.
#[derive(Debug, thiserror::Error)]
#[error("the export breaks off: {0}")]
struct BrokenOff(String);

impl HttpBody for Export {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        if matches!(self.come.at, Place::Done) {
            return Poll::Ready(None);
        }
        let Export { app, come, reading } = &mut *self;
        let page = reading.get_or_insert_with(|| Box::pin(page(Arc::clone(app), *come)));
        let page = ready!(page.as_mut().poll(context));
        self.reading = None;
        Poll::Ready(Some(match page {
            Ok((bytes, come)) => {
                self.come = come;
                Ok(Frame::data(bytes))
            }
            Err(problem) => {
                tracing::error!(why = %problem.detail, "an export breaks off");
                self.come.at = Place::Done;
                Err(BrokenOff(problem.detail.into_owned()))
            }
        }))
    }
}

/// The next page, as long as the server is drained.
async fn page(app: Arc<App>, come: Come) -> Page {
    drained(&app)?;
    let reading = Arc::clone(&app);
    app.read(move |file, over| read(&reading, file, over, come)).await
}

fn read(
    app: &App,
    file: &Snapshot,
    over: &dyn Fn() -> bool,
    mut come: Come,
) -> Result<(Bytes, Come), StoreError> {
    let mut text = Vec::with_capacity(PAGE_BYTES + PAGE_BYTES / 4);
    come.at = match come.at {
        Place::Header => {
            line(&mut text, &HeaderLine::of(file.identity()?, &app.region, app.handle.now()));
            Place::Destinations(DestNo(0))
        }
        Place::Destinations(from) => {
            let next = file.hand_over_destinations(from, |view, learnt| {
                come.lines.destinations += 1;
                line(&mut text, &DestinationLine::of(view, learnt));
            })?;
            next.map_or(Place::Deliveries(None), Place::Destinations)
        }
        Place::Deliveries(after) => deliveries(app, file, over, after, &mut come.lines, &mut text)?,
        Place::Done => Place::Done,
    };
    Ok((text.into(), come))
}

fn deliveries(
    app: &App,
    file: &Snapshot,
    over: &dyn Fn() -> bool,
    after: Option<DeliveryId>,
    lines: &mut EndLine,
    text: &mut Vec<u8>,
) -> Result<Place, StoreError> {
    let now = app.handle.now();
    let mut looked_at = 0;
    let last = file.hand_over(after, |id, handed| {
        match handed {
            Ok(handed) => {
                lines.deliveries += 1;
                line(text, &DeliveryLine::of(&handed, now));
            }
            Err(why) => leave(lines, id, why),
        }
        looked_at += 1;
        text.len() >= PAGE_BYTES || (looked_at % ASK_EVERY == 0 && over())
    })?;
    if last.is_some() {
        return Ok(Place::Deliveries(last));
    }
    line(text, lines);
    let LeftObject { damaged, destination_deleted } = lines.left_behind;
    let EndLine { destinations, deliveries, .. } = *lines;
    tracing::info!(destinations, deliveries, damaged, destination_deleted, "exported");
    Ok(Place::Done)
}

fn leave(lines: &mut EndLine, id: DeliveryId, why: LeftBehind) {
    match why {
        LeftBehind::Damaged => {
            tracing::error!(%id, "stays behind: its record or its body is damaged");
            lines.left_behind.damaged += 1;
        }
        LeftBehind::DestinationDeleted => lines.left_behind.destination_deleted += 1,
    }
}

fn line(text: &mut Vec<u8>, document: &impl Serialize) {
    serde_json::to_writer(&mut *text, document).expect("a document of ours has string keys");
    text.push(b'\n');
}
