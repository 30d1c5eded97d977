//! What happens to a disk in a crash seed.

use crate::sim::disk::{Failure, Fault, Op};
use crate::sim::rng::Rng;
use crate::sim::world::{Incident, Peril, Restart};

/// What the seed has of incidents: one, mostly followed by another, in the recovery from the
/// first or a few commits later.
pub(crate) fn incidents(seed: u64) -> Vec<Incident> {
    let rng = &mut Rng::new(seed.rotate_left(32) ^ 0xD15C);
    let first = first(rng);
    let mut plan = vec![first];
    if first.restart == Restart::SameCache {
        // The supervisor was quick; then the power goes.
        let peril = Peril::Disk(Fault::Stop { after: rng.below(30) });
        plan.push(Incident { commits: 3 + rng.below(3), peril, restart: Restart::Loses });
    } else {
        while plan.len() < 4 && rng.percent(50) {
            plan.push(Incident { commits: 0, peril: Peril::Disk(recovery(rng)), restart: restart(rng) });
        }
    }
    plan
}

fn first(rng: &mut Rng) -> Incident {
    let (peril, commits) = match rng.below(20) {
        0..=11 => (Peril::Disk(fault(rng)), 0),
        12 => (Peril::Untold, rng.below(30)),
        13 | 14 => (Peril::Unsent, rng.below(20)),
        15 | 16 => (Peril::Full { room: rng.below(24) << 12, floor: rng.below(4) << 14 }, 1 + rng.below(12)),
        _ => (Peril::Disk(Fault::Stop { after: rng.below(40) }), 1 + rng.below(30)),
    };
    // What a failed sync forgot shows itself only to a process that comes before the cache is gone.
    let forgets = matches!(peril, Peril::Disk(Fault::Fail { how: Failure::Forgets, .. }));
    let restart = if forgets && rng.percent(60) { Restart::SameCache } else { restart(rng) };
    Incident { commits, peril, restart }
}

fn restart(rng: &mut Rng) -> Restart {
    if rng.percent(60) { Restart::Loses } else { Restart::SameCache }
}

/// A fault anywhere in a history.
fn fault(rng: &mut Rng) -> Fault {
    match rng.below(14) {
        0..=4 => Fault::Stop { after: rng.below(600) },
        5 | 6 => fail(rng, Op::Write, 500),
        7 | 8 => fail(rng, Op::SetLen, 8),
        9..=11 => fail(rng, Op::Sync, 120),
        // Few in an open, many in the steps of a database with few pages in RAM.
        12 => fail(rng, Op::Read, 40),
        _ => fail(rng, Op::Read, 600),
    }
}

/// A fault in a recovery, or in the first steps after it.
fn recovery(rng: &mut Rng) -> Fault {
    match rng.below(8) {
        0..=2 => Fault::Stop { after: rng.below(40) },
        3 => fail(rng, Op::Write, 30),
        4 => fail(rng, Op::SetLen, 2),
        5 | 6 => fail(rng, Op::Sync, 8),
        _ => fail(rng, Op::Read, 45),
    }
}

fn fail(rng: &mut Rng, op: Op, most: u64) -> Fault {
    let how = match op {
        Op::Read => Failure::Io,
        Op::Sync => {
            [Failure::Io, Failure::NoSpace, Failure::Forgets, Failure::Forgets][rng.below(4) as usize]
        }
        Op::Write | Op::SetLen => [Failure::Io, Failure::NoSpace][rng.below(2) as usize],
    };
    Fault::Fail { op, after: rng.below(most), how }
}

/// Syncs that lie from some step on, and a power loss after a while.
pub(crate) fn lies(seed: u64) -> Vec<Incident> {
    let rng = &mut Rng::new(seed ^ 0x11E5);
    let peril = Peril::Lies { after: 30 + rng.below(100) };
    vec![Incident { commits: 1 + rng.below(10), peril, restart: Restart::Loses }]
}
