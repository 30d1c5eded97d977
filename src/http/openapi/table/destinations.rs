//! Operations on destinations.

use crate::http::admin::keys::RotatedObject;
use crate::http::dto::List;
use crate::http::dto::delivery::AttemptObject;
use crate::http::dto::destination::DestinationObject;
use crate::http::dto::job::JobObject;
use crate::http::error::Code;
use crate::http::openapi::operation::{Answer, Body, Operation, Shape, of};
use crate::http::openapi::{parameters, requests};

const ONE: Shape = of::<DestinationObject<'static>>;
const CHANGED: &[Answer] = &[Answer::json(200, "The destination as it stands.", ONE).with(&["ETag"])];
const REASONED: Body = Body::Optional(requests::reasoned);
const NOT_FOUND: &[Code] = &[Code::NotFound];

/// In the order of API.md.
pub(super) const OPERATIONS: &[Operation] = &[
    Operation {
        query: parameters::DESTINATIONS,
        ..Operation::new(
            "GET",
            "/v1/destinations",
            "listDestinations",
            "Destinations by name",
            &[Answer::json(200, "A page.", of::<List<DestinationObject<'static>>>)],
        )
    },
    Operation {
        headers: parameters::IF_MATCH_OR_NONE,
        body: Body::Json(requests::destination),
        codes: &[Code::TenantFixed, Code::TooManyDestinations, Code::RevisionMismatch],
        ..Operation::new(
            "PUT",
            "/v1/destinations/{id}",
            "putDestination",
            "Create or replace it",
            &[
                Answer::json(200, "It was there, and is replaced.", ONE).with(&["ETag"]),
                Answer::json(201, "It is new.", ONE).with(&["ETag", "Location"]),
            ],
        )
    },
    Operation {
        codes: NOT_FOUND,
        ..Operation::new(
            "GET",
            "/v1/destinations/{id}",
            "getDestination",
            "Its settings and how it is doing",
            CHANGED,
        )
    },
    Operation {
        headers: parameters::IF_MATCH,
        body: Body::Json(requests::destination_patch),
        codes: &[Code::NotFound, Code::TenantFixed, Code::RevisionMismatch],
        ..Operation::new(
            "PATCH",
            "/v1/destinations/{id}",
            "patchDestination",
            "Change what is given",
            CHANGED,
        )
    },
    Operation {
        query: parameters::REMOVAL,
        headers: parameters::IF_MATCH,
        codes: &[Code::NotFound, Code::WorkWaiting, Code::RevisionMismatch, Code::BulkRunning],
        ..Operation::new(
            "DELETE",
            "/v1/destinations/{id}",
            "deleteDestination",
            "Remove it",
            &[
                Answer::none("It is gone."),
                Answer::json(
                    202,
                    "The job that cancels its work and then removes it.",
                    of::<JobObject<'static>>,
                )
                .with(&["Location"]),
            ],
        )
    },
    Operation {
        body: REASONED,
        codes: NOT_FOUND,
        ..Operation::new(
            "POST",
            "/v1/destinations/{id}/pause",
            "pauseDestination",
            "Accept and keep, send nothing",
            CHANGED,
        )
    },
    Operation {
        body: REASONED,
        codes: NOT_FOUND,
        ..Operation::new("POST", "/v1/destinations/{id}/resume", "resumeDestination", "End a pause", CHANGED)
    },
    Operation {
        body: REASONED,
        codes: NOT_FOUND,
        ..Operation::new(
            "POST",
            "/v1/destinations/{id}/enable",
            "enableDestination",
            "End a disabled state",
            CHANGED,
        )
    },
    Operation {
        body: REASONED,
        codes: NOT_FOUND,
        ..Operation::new(
            "POST",
            "/v1/destinations/{id}/disable",
            "disableDestination",
            "Refuse new deliveries, send nothing",
            CHANGED,
        )
    },
    Operation {
        body: Body::Json(requests::hold),
        codes: NOT_FOUND,
        ..Operation::new(
            "PUT",
            "/v1/destinations/{id}/hold",
            "holdDestination",
            "Let nothing through until a time",
            CHANGED,
        )
    },
    Operation {
        body: Body::Optional(requests::empty),
        codes: NOT_FOUND,
        ..Operation::new(
            "DELETE",
            "/v1/destinations/{id}/hold",
            "releaseDestination",
            "End any hold",
            CHANGED,
        )
    },
    Operation {
        body: Body::Optional(requests::rotation),
        codes: &[Code::NotFound, Code::TooManySecrets],
        ..Operation::new(
            "POST",
            "/v1/destinations/{id}/secrets/rotate",
            "rotateSecret",
            "Sign with a new secret",
            &[Answer::json(
                200,
                "The destination, and a secret that was made: this once.",
                of::<RotatedObject<'static>>,
            )
            .with(&["ETag"])],
        )
    },
    Operation {
        body: Body::Optional(requests::trial),
        codes: &[Code::NotFound, Code::DestinationHeld],
        ..Operation::new(
            "POST",
            "/v1/destinations/{id}/test",
            "testDestination",
            "One request now, without a delivery",
            &[Answer::json(200, "What came of it.", of::<AttemptObject<'static>>)],
        )
    },
];
