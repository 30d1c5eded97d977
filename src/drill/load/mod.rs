//! What the drills under load share: destinations and deliveries in numbers, a receiver that
//! remembers who was asked when, posts at a steady beat, and the arithmetic of what was seen.
//!
//! Nothing here judges: a drill does, from what was seen and from nothing else.

pub(super) mod bucket;
pub(super) mod client;
pub(super) mod holds;
pub(super) mod stream;
pub(super) mod waits;
pub(super) mod witness;

use std::time::Duration;

use super::{Voice, wait_until};

/// Between two lines about how things stand.
const NEWS: Duration = Duration::from_secs(1);
/// For what is still on its way when the posts end: longer than any limit it is held against.
pub(super) const SETTLE: Duration = Duration::from_secs(5);
/// Whose the destinations in trouble are: so many that they are not one tenant's affair.
const TENANTS: usize = 20;

/// Tells how things stand, every second while `going`.
pub(super) async fn tell(voice: &Voice, going: impl Fn() -> bool, standing: impl Fn() -> String) {
    while !wait_until(NEWS, async || !going()).await {
        voice.say(&standing());
    }
}

/// The tenant of the `n`th destination in trouble.
pub(super) fn tenant(n: usize) -> String {
    format!("troubled-{}", n % TENANTS)
}
