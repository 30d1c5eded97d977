//! Operations on the whole server.

use crate::http::admin::backup::{BackupObject, HoldObject};
use crate::http::admin::claims::ClaimsObject;
use crate::http::admin::import::tale::ImportObject;
use crate::http::dto::List;
use crate::http::dto::hand_over::ExportLine;
use crate::http::dto::overview::{
    DestinationRowObject, HealthObject, ReadyObject, StatsObject, TenantRowObject, VersionObject,
};
use crate::http::error::{Code, Document};
use crate::http::health::OPEN_METRICS;
use crate::http::openapi::operation::{Answer, Body, On, Operation, Reach, Shape, of};
use crate::http::openapi::{parameters, requests};

const PAGE: &str = "text/html; charset=utf-8";
const CLAIMS: &[Answer] = &[Answer::json(200, "How it stands.", of::<ClaimsObject>)];
const READY: Shape = of::<ReadyObject>;
const HEALTH: Shape = of::<HealthObject>;
const EXPORT: Answer = Answer {
    media: "application/x-ndjson",
    ..Answer::json(200, "One object a line; whole when the last is its end.", of::<ExportLine<'static>>)
};
const LINES: &[(&str, Shape)] = &[("application/x-ndjson", requests::anything)];
const IMPORTED: Answer =
    Answer::json(200, "What was taken, and what was rejected.", of::<ImportObject<Document<'static>>>);

/// In the order of API.md.
pub(super) const OPERATIONS: &[Operation] = &[
    Operation::new(
        "GET",
        "/v1/stats",
        "getStats",
        "What waits, is in flight, and is due in the next hour",
        &[Answer::json(200, "The totals.", of::<StatsObject<'static>>)],
    ),
    Operation {
        query: parameters::TENANT_RANKING,
        ..Operation::new(
            "GET",
            "/v1/stats/tenants",
            "rankTenants",
            "The tenants that have most",
            &[Answer::json(200, "A page.", of::<List<TenantRowObject<'static>>>)],
        )
    },
    Operation {
        query: parameters::DESTINATION_RANKING,
        ..Operation::new(
            "GET",
            "/v1/stats/destinations",
            "rankDestinations",
            "The destinations that have most",
            &[Answer::json(200, "A page.", of::<List<DestinationRowObject<'static>>>)],
        )
    },
    Operation {
        body: Body::Optional(requests::empty),
        ..Operation::new(
            "POST",
            "/v1/claims/stop",
            "stopClaims",
            "Send nothing; deliveries are still taken",
            CLAIMS,
        )
    },
    Operation {
        body: Body::Optional(requests::start),
        codes: &[Code::FenceRequired],
        ..Operation::new(
            "POST",
            "/v1/claims/start",
            "startClaims",
            "Send again; after a drain with its fence",
            CLAIMS,
        )
    },
    Operation {
        body: Body::Optional(requests::drain),
        ..Operation::new(
            "POST",
            "/v1/drain",
            "drain",
            "Send nothing and take nothing, for a hand-over",
            CLAIMS,
        )
    },
    Operation {
        codes: &[Code::NotDrained],
        ..Operation::new("GET", "/v1/export", "exportAll", "Everything a drained server has", &[EXPORT])
    },
    Operation {
        query: parameters::IMPORT,
        body: Body::Media(LINES),
        codes: &[Code::WrongRegion, Code::Truncated, Code::StaleExport, Code::ImportRunning, Code::DiskLow],
        ..Operation::new(
            "POST",
            "/v1/import",
            "importAll",
            "Take over what another server exported",
            &[IMPORTED],
        )
    },
    Operation {
        body: Body::Json(requests::backup),
        codes: &[Code::BackupExists, Code::BackupRunning, Code::BackupFailed, Code::DiskLow],
        ..Operation::new(
            "POST",
            "/v1/backup",
            "backUp",
            "Write a verified copy on the server's machine",
            &[Answer::json(201, "It is on disk and was read back.", of::<BackupObject<'static>>)],
        )
    },
    Operation {
        body: Body::Optional(requests::backup_hold),
        ..Operation::new(
            "POST",
            "/v1/backup/hold",
            "holdCommits",
            "Hold commits back for a copy of your own",
            &[Answer::json(200, "Nothing is being written now.", of::<HoldObject>)],
        )
    },
    Operation {
        body: Body::Optional(requests::empty),
        ..Operation::new(
            "DELETE",
            "/v1/backup/hold",
            "releaseCommits",
            "End that hold",
            &[Answer::none("There is none now.")],
        )
    },
    Operation {
        reach: Reach::Memory,
        ..Operation::new(
            "GET",
            "/v1/version",
            "getVersion",
            "What runs here",
            &[Answer::json(200, "The program, and the format of its file.", of::<VersionObject<'static>>)],
        )
    },
    Operation {
        reach: Reach::Memory,
        ..Operation::new(
            "GET",
            "/metrics",
            "getMetrics",
            "The figures for Prometheus",
            &[Answer::text("OpenMetrics.", OPEN_METRICS)],
        )
    },
    Operation {
        reach: Reach::Memory,
        ..Operation::new(
            "GET",
            "/",
            "getPage",
            "The status page",
            &[
                Answer::text("It asks for /v1/stats again and again.", PAGE),
                Answer { status: 401, ..Answer::text("The same page, which asks for a token.", PAGE) },
            ],
        )
    },
    Operation {
        on: On::Both,
        reach: Reach::Memory,
        ..Operation::new(
            "GET",
            super::super::PATH,
            "getDocument",
            "This document",
            &[Answer::json(200, "OpenAPI 3.1.", requests::anything)],
        )
    },
    Operation {
        on: On::Both,
        reach: Reach::Memory,
        ..Operation::new(
            "GET",
            "/healthz",
            "getHealth",
            "Whether the engine and its commits are recent",
            &[Answer::json(200, "They are.", HEALTH), Answer::json(503, "They are not.", HEALTH)],
        )
    },
    Operation {
        on: On::Both,
        reach: Reach::Memory,
        ..Operation::new(
            "GET",
            "/readyz",
            "getReadiness",
            "Whether a delivery would be taken now",
            &[Answer::json(200, "It would.", READY), Answer::json(503, "It would not, and why.", READY)],
        )
    },
];
