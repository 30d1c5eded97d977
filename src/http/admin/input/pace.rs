//! How many requests at once and how often: `concurrency` and `rate`.

use serde_json::value::RawValue;

use super::{Checks, Given, given, number};
use crate::http::fields::Fields;
use crate::model::destination::{BURST_DEFAULT, BURST_MAX, CONCURRENCY_MAX, RATE_MAX};
use crate::model::{Destination, Rate};

/// The most requests in flight, and whether the limit adapts.
pub(super) fn concurrency(
    fields: &mut Fields<'_>,
    base: Option<&Destination>,
    checks: &Checks<'_>,
) -> (u32, bool) {
    let default = checks.defaults.concurrency;
    let stored = base.map_or((default, false), |base| (base.concurrency_max, base.adaptive));
    match given(fields, "concurrency") {
        Given::Absent => stored,
        Given::Null => (default, false),
        Given::Value(value) => read_concurrency(fields, value, stored, default).unwrap_or(stored),
    }
}

fn read_concurrency(
    fields: &mut Fields<'_>,
    value: &RawValue,
    (most, adapts): (u32, bool),
    default: u32,
) -> Option<(u32, bool)> {
    let Ok(mut inner) = Fields::read(value.get().as_bytes()) else {
        return fields.refuse("concurrency", "must be an object");
    };
    let range = 1..=u64::from(CONCURRENCY_MAX);
    let max = number(inner.raw("max"), range, u64::from(most), u64::from(default));
    let adaptive = truth(inner.raw("adaptive"), adapts);
    if inner.finish(&[]).is_err() {
        fields.fault("concurrency", "has max and adaptive, each once");
    }
    if adaptive.is_none() {
        fields.fault("concurrency.adaptive", "must be true or false");
    }
    match max {
        Ok(max) => Some((u32::try_from(max).ok()?, adaptive?)),
        Err(detail) => fields.refuse("concurrency.max", detail),
    }
}

/// Absent keeps, null is false; None: it is neither.
fn truth(value: Option<&RawValue>, stored: bool) -> Option<bool> {
    match value.map(RawValue::get) {
        None => Some(stored),
        Some("null") => Some(false),
        Some(text) => text.parse().ok(),
    }
}

/// The rate, if there is to be one.
pub(super) fn rate(fields: &mut Fields<'_>, base: Option<&Destination>) -> Option<Rate> {
    let stored = base.and_then(|base| base.rate);
    match given(fields, "rate") {
        Given::Absent => stored,
        Given::Null => None,
        Given::Value(value) => read_rate(fields, value, stored),
    }
}

fn read_rate(fields: &mut Fields<'_>, value: &RawValue, stored: Option<Rate>) -> Option<Rate> {
    let Ok(mut inner) = Fields::read(value.get().as_bytes()) else {
        return fields.refuse("rate", "must be an object or null");
    };
    let per_second = per_second(inner.raw("per_second"), stored);
    let range = 1..=u64::from(BURST_MAX);
    let default = u64::from(BURST_DEFAULT);
    let burst = inner.raw("burst");
    let burst = number(burst, range, stored.map_or(default, |rate| rate.burst.into()), default);
    if inner.finish(&[]).is_err() {
        fields.fault("rate", "has per_second and burst, each once");
    }
    let burst = burst.map_err(|detail| fields.fault("rate.burst", detail)).ok();
    let per_second = per_second.map_err(|detail| fields.fault("rate.per_second", detail)).ok()?;
    Rate::per_second(per_second, u32::try_from(burst?).ok()?)
}

/// Absent keeps what is stored; there is no rate without it.
fn per_second(value: Option<&RawValue>, stored: Option<Rate>) -> Result<f64, String> {
    match (value.map(RawValue::get), stored) {
        (None, Some(stored)) => Ok(stored.as_per_second()),
        (None | Some("null"), _) => Err("required".to_owned()),
        (Some(text), _) => {
            let number = serde_json::from_str::<f64>(text).ok();
            let good = number.filter(|number| Rate::per_second(*number, BURST_DEFAULT).is_some());
            good.ok_or_else(|| format!("must be a number from 0.000001 to {RATE_MAX}"))
        }
    }
}
