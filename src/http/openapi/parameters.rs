//! The parameters of paths, queries and heads.

use schemars::{Schema, SchemaGenerator, json_schema};

use super::operation::Parameter;
use super::{patterns, words};
use crate::engine::rank::{DestinationOrder, MAX_RANKED, TenantOrder};
use crate::http::admin::deliveries::{LIMIT_MAX, ORDERS, order_name};
use crate::model::MAX_AGE_RANGE;
use crate::outcome::{AttemptResult, Ending};

fn name(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "pattern": patterns::NAME})
}

fn key(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "pattern": patterns::KEY})
}

fn key_header(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "pattern": patterns::KEY_HEADER})
}

fn time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "format": "date-time"})
}

fn who(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "pattern": "^[A-Za-z0-9:._-]{1,100}$"})
}

fn text(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string"})
}

fn flag(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "boolean"})
}

fn status(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "integer", "minimum": 100, "maximum": 999})
}

fn limit(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "integer", "minimum": 1, "maximum": LIMIT_MAX})
}

fn place(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "integer", "minimum": 1, "maximum": MAX_RANKED})
}

fn age(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "integer", "minimum": MAX_AGE_RANGE.start(), "maximum": MAX_AGE_RANGE.end()})
}

fn failures(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "integer", "minimum": 0, "maximum": u32::MAX})
}

fn outcome(_: &mut SchemaGenerator) -> Schema {
    words::one_of(&Ending::ALL.map(Ending::as_str))
}

fn result(_: &mut SchemaGenerator) -> Schema {
    words::one_of(&AttemptResult::ALL.map(AttemptResult::as_str))
}

fn order(_: &mut SchemaGenerator) -> Schema {
    words::one_of(&ORDERS.map(order_name))
}

fn label(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "pattern": patterns::LABEL})
}

fn tenant_order(_: &mut SchemaGenerator) -> Schema {
    words::one_of(&TenantOrder::ALL.map(TenantOrder::as_str))
}

fn destination_order(_: &mut SchemaGenerator) -> Schema {
    words::one_of(&DestinationOrder::ALL.map(DestinationOrder::as_str))
}

fn etag(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "pattern": r#"^(\*|"[0-9]+-[0-9]+")$"#})
}

const LIMIT: Parameter = Parameter::new("limit", "Entries of a page, 50 unless set.", limit);
const CURSOR: Parameter =
    Parameter::new("cursor", "The next_cursor of the page before; its filter stays the same.", text);
const TENANTS: Parameter = Parameter::list("tenant", "Of these tenants.", name);

/// The look-up of a key.
pub const BY_KEY: &[Parameter] = &[
    Parameter::new("tenant", "Whose key it is.", name).required(),
    Parameter::new("idempotency_key", "The producer's key.", key).required(),
    Parameter::new("destination", "Only this one; otherwise one entry a destination.", name),
];

/// What deliveries are filtered by, in a list and in a bulk job.
pub const FILTER: [Parameter; 14] = [
    Parameter::list("state", "In one of these states.", words::delivery_state),
    Parameter::list("outcome", "That ended so.", outcome),
    TENANTS,
    Parameter::list("destination", "For these destinations.", name),
    Parameter::list("class", "Of these classes.", name),
    Parameter::new("label", "With this label, as name:value.", label),
    Parameter::list("last_status", "Whose last answer had this status.", status),
    Parameter::list("last_result", "Whose last attempt came to this.", result),
    Parameter::new("created_after", "Accepted later than this.", time),
    Parameter::new("created_before", "Accepted before this.", time),
    Parameter::new("due_after", "Due later than this.", time),
    Parameter::new("due_before", "Due before this.", time),
    Parameter::new("finished_after", "Ended later than this.", time),
    Parameter::new("finished_before", "Ended before this.", time),
];

/// What a list of deliveries is asked for besides.
const BESIDES: [Parameter; 4] = [
    Parameter::new("idempotency_key", "The look-up of a key: tenant is needed too, destination may be.", key),
    Parameter::new("order", "-created unless set; finished with a kept cursor is the feed of ends.", order),
    LIMIT,
    CURSOR,
];

/// All that a list of deliveries can be asked for.
pub const DELIVERIES: &[Parameter] = &{
    let mut all = [FILTER[0]; 18];
    let mut n = 0;
    while n < all.len() {
        all[n] = if n < FILTER.len() { FILTER[n] } else { BESIDES[n - FILTER.len()] };
        n += 1;
    }
    all
};

/// The filter of a list of destinations.
pub const DESTINATIONS: &[Parameter] =
    &[TENANTS, Parameter::list("state", "In one of these states.", words::destination_state), LIMIT, CURSOR];

/// A ranking of tenants.
pub const TENANT_RANKING: &[Parameter] = &[
    Parameter::new("sort", "By what; waiting unless set.", tenant_order),
    LIMIT,
    Parameter::new("cursor", "The place in the ranking to go on from.", place),
];

/// A ranking of destinations.
pub const DESTINATION_RANKING: &[Parameter] = &[
    Parameter::new("sort", "By what; held unless set.", destination_order),
    LIMIT,
    Parameter::new("cursor", "The place in the ranking to go on from.", place),
];

/// A page of jobs.
pub const JOBS: &[Parameter] = &[LIMIT, CURSOR];

/// What becomes of the work of a destination that is removed.
pub const REMOVAL: &[Parameter] =
    &[Parameter::new("waiting", "cancel: what waits is cancelled first, by a job.", words::waiting)];

/// The filter of the audit log.
pub const AUDIT: &[Parameter] = &[
    Parameter::list("by", "By these: operator, uid:N, token:ID, receiver.", who),
    Parameter::list("action", "These actions.", words::action),
    Parameter::list("object", "On these destinations, deliveries or jobs.", who),
    Parameter::new("after", "Later than this.", time),
    Parameter::new("before", "Before this.", time),
    LIMIT,
    CURSOR,
];

/// How an import is done.
pub const IMPORT: &[Parameter] = &[
    Parameter::new("dry_run", "Say what would be done, and change nothing.", flag),
    Parameter::new("stop_on_error", "End at the first line that is rejected.", flag),
];

/// The producer's key as a header.
pub const KEY: &[Parameter] =
    &[Parameter::new("Idempotency-Key", "The producer's key, bare or quoted.", key_header)];

/// What is asked of a raw body.
pub const RAW: &[Parameter] = &[
    KEY[0],
    Parameter::new("Duehook-Tenant", "As tenant of a delivery object.", name),
    Parameter::new("Duehook-Class", "As class of a delivery object.", name),
    Parameter::new("Duehook-Region", "Refused unless it is the server's.", name),
    Parameter::new("Duehook-Not-Before", "Nothing is sent before this time.", time),
    Parameter::new("Duehook-Max-Age-Ms", "How long it is tried in all.", age),
    Parameter::new("Duehook-Max-Failures", "Failures after which it is given up; 0: no limit.", failures),
];

fn star(_: &mut SchemaGenerator) -> Schema {
    words::one_of(&["*"])
}

/// Only if it was not changed meanwhile, or is not there.
pub const IF_MATCH_OR_NONE: &[Parameter] =
    &[IF_MATCH[0], Parameter::new("If-None-Match", "Only create it: 412 when it is there.", star)];

/// Only if it was not changed meanwhile.
pub const IF_MATCH: &[Parameter] =
    &[Parameter::new("If-Match", "The ETag that was read: 412 when it has changed since.", etag)];

/// The schema of a path's variable part.
#[must_use]
pub fn of_path(path: &str, variable: &str) -> Schema {
    match (path, variable) {
        (path, "id") if path.starts_with("/v1/deliveries/") => {
            json_schema!({"type": "string", "pattern": patterns::DELIVERY_ID})
        }
        (path, "id") if path.starts_with("/v1/bulk/") => {
            json_schema!({"type": "string", "pattern": patterns::JOB_ID})
        }
        (_, _) => json_schema!({"type": "string", "pattern": patterns::NAME}),
    }
}
