//! The right to have one request out, and what it was given for.

use super::pool::Pool;
use crate::model::{DestNo, Lane, TenantNo};
use crate::time::Mono;

/// The right to one request. It comes back once, by `Schedule::release`.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub struct Slot {
    pub(super) place: usize,
    pub(super) serial: u64,
}

/// What a slot was given for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Permit {
    pub(super) pool: Pool,
    pub(super) lane: Lane,
    pub(super) no: DestNo,
    pub(super) tenant: TenantNo,
    /// Of the gate when it was given.
    pub(super) epoch: u32,
    pub(super) started: Mono,
    /// Slot-milliseconds that were charged for it.
    pub(super) charged: u64,
    /// It is one of those for interrupted work.
    pub(super) suspect: bool,
    pub(super) serial: u64,
}

impl Permit {
    /// For one request of a lane.
    pub(super) fn new(
        pool: Pool,
        lane: Lane,
        no: DestNo,
        tenant: TenantNo,
        epoch: u32,
        started: Mono,
    ) -> Permit {
        Permit { pool, lane, no, tenant, epoch, started, charged: 0, suspect: false, serial: 0 }
    }

    /// Charged so much, and perhaps one of those for interrupted work.
    pub(super) fn charging(self, charged: u64, suspect: bool) -> Permit {
        Permit { charged, suspect, ..self }
    }
}
