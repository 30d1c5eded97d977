//! Operations on many deliveries at once, on the settings, and on what was changed.

use crate::http::admin::audit::EntryObject;
use crate::http::admin::config::ReloadedObject;
use crate::http::dto::List;
use crate::http::dto::job::{CountObject, JobObject};
use crate::http::error::Code;
use crate::http::openapi::operation::{Answer, Body, Operation, Reach, Shape, of};
use crate::http::openapi::{parameters, requests};

const JOB: Shape = of::<JobObject<'static>>;

/// In the order of API.md.
pub(super) const OPERATIONS: &[Operation] = &[
    Operation {
        body: Body::Json(requests::bulk),
        codes: &[Code::CountChanged, Code::BulkRunning],
        ..Operation::new(
            "POST",
            "/v1/bulk",
            "startBulk",
            "Retry, cancel or erase all that a filter names",
            &[
                Answer::json(200, "A dry run: how many there are.", of::<CountObject>),
                Answer::json(202, "The job that has begun.", JOB).with(&["Location"]),
            ],
        )
    },
    Operation {
        query: parameters::JOBS,
        ..Operation::new(
            "GET",
            "/v1/bulk",
            "listBulk",
            "The jobs that run and the last that ended, the newest first",
            &[Answer::json(200, "A page.", of::<List<JobObject<'static>>>)],
        )
    },
    Operation {
        codes: &[Code::NotFound],
        ..Operation::new(
            "GET",
            "/v1/bulk/{id}",
            "getBulk",
            "How far a job has come",
            &[Answer::json(200, "The job.", JOB)],
        )
    },
    Operation {
        body: Body::Optional(requests::empty),
        codes: &[Code::NotFound],
        ..Operation::new(
            "DELETE",
            "/v1/bulk/{id}",
            "stopBulk",
            "Stop a job; what it has changed stays so",
            &[Answer::json(200, "The job as it ended.", JOB)],
        )
    },
    Operation {
        reach: Reach::Memory,
        ..Operation::new(
            "GET",
            "/v1/config",
            "getConfig",
            "The settings in force and where each comes from",
            &[Answer::json(200, "The tables of the config file; secrets are masked.", requests::anything)],
        )
    },
    Operation {
        body: Body::Optional(requests::empty),
        ..Operation::new(
            "POST",
            "/v1/config/reload",
            "reloadConfig",
            "Read the settings again: all of them, or none",
            &[Answer::json(200, "They are in force.", of::<ReloadedObject>)],
        )
    },
    Operation {
        query: parameters::AUDIT,
        ..Operation::new(
            "GET",
            "/v1/audit",
            "listAudit",
            "Who changed what, the newest first",
            &[Answer::json(200, "A page.", of::<List<EntryObject<'static>>>)],
        )
    },
];
