//! Operations on deliveries: those of producers and those of operators.

use crate::http::dto::List;
use crate::http::dto::delivery::{AttemptObject, BatchObject, DeliveryObject, ExplanationObject};
use crate::http::error::{Code, Document};
use crate::http::ingest::refusals::CODES as REFUSALS;
use crate::http::openapi::operation::{Answer, Body, On, Operation, Shape, of};
use crate::http::openapi::{parameters, requests};

const ONE: Shape = of::<DeliveryObject<'static>>;
const LIST: Shape = of::<List<DeliveryObject<'static>>>;
const TAKEN: &[Answer] = &[
    Answer::json(202, "It is on disk.", ONE).with(&["Location"]),
    Answer::json(200, "The key, the body and the destination are known: this is that delivery.", ONE),
];
const RAW: &[(&str, Shape)] =
    &[("application/octet-stream", requests::anything), ("application/json", requests::anything)];
const BATCH: &[(&str, Shape)] =
    &[("application/x-ndjson", requests::anything), ("application/json", requests::batch)];

/// In the order of API.md.
pub(super) const OPERATIONS: &[Operation] = &[
    Operation {
        on: On::Both,
        headers: parameters::KEY,
        body: Body::Json(requests::new_delivery),
        codes: &REFUSALS,
        ..Operation::new("POST", "/v1/deliveries", "createDelivery", "Hand over a delivery", TAKEN)
    },
    Operation {
        on: On::Both,
        headers: parameters::RAW,
        body: Body::Media(RAW),
        codes: &REFUSALS,
        ..Operation::new("POST", "/v1/send/{destination}", "send", "Hand over a raw body", TAKEN)
    },
    Operation {
        on: On::Both,
        body: Body::Media(BATCH),
        codes: &REFUSALS,
        ..Operation::new(
            "POST",
            "/v1/batch",
            "createDeliveries",
            "Hand over up to 1,000 deliveries",
            &[Answer::json(200, "What became of each, in order.", of::<BatchObject<Document<'static>>>)],
        )
    },
    Operation {
        on: On::Both,
        codes: &[Code::NotFound],
        ..Operation::new(
            "GET",
            "/v1/deliveries/{id}",
            "getDelivery",
            "One delivery",
            &[Answer::json(200, "The delivery.", ONE)],
        )
    },
    Operation {
        on: On::Ingest,
        query: parameters::BY_KEY,
        ..Operation::new(
            "GET",
            "/v1/deliveries",
            "findDeliveries",
            "The deliveries of one key",
            &[Answer::json(200, "One entry a destination.", LIST)],
        )
    },
    Operation {
        query: parameters::DELIVERIES,
        ..Operation::new(
            "GET",
            "/v1/deliveries",
            "listDeliveries",
            "Deliveries by filter, or of one key",
            &[Answer::json(200, "A page; it may be short, even empty, while there are more.", LIST)],
        )
    },
    Operation {
        codes: &[Code::NotFound],
        ..Operation::new(
            "GET",
            "/v1/deliveries/{id}/attempts",
            "listAttempts",
            "The newest 100 attempts",
            &[Answer::json(200, "The oldest first.", of::<List<AttemptObject<'static>>>)],
        )
    },
    Operation {
        codes: &[Code::NotFound],
        ..Operation::new(
            "GET",
            "/v1/deliveries/{id}/explain",
            "explainDelivery",
            "Why it was not sent yet",
            &[Answer::json(200, "Everything that keeps it back.", of::<ExplanationObject<'static>>)],
        )
    },
    Operation {
        body: Body::Optional(requests::empty),
        codes: &[Code::NotFound, Code::Leased, Code::PayloadErased, Code::DestinationGone],
        ..Operation::new(
            "POST",
            "/v1/deliveries/{id}/retry",
            "retryDelivery",
            "Make it due now",
            &[Answer::json(200, "The delivery as it stands.", ONE)],
        )
    },
    Operation {
        body: Body::Optional(requests::empty),
        codes: &[Code::NotFound, Code::Terminal],
        ..Operation::new(
            "POST",
            "/v1/deliveries/{id}/cancel",
            "cancelDelivery",
            "End it",
            &[Answer::json(200, "The delivery as it stands.", ONE)],
        )
    },
    Operation {
        body: Body::Optional(requests::empty),
        codes: &[Code::NotFound],
        ..Operation::new(
            "DELETE",
            "/v1/deliveries/{id}/payload",
            "erasePayload",
            "Erase its body",
            &[Answer::none("It is gone, or was before.")],
        )
    },
];
