//! Drills and the scripted receiver they are run against.
//!
//! A drill starts a throw-away server (this very binary, in a folder of its own) and receivers,
//! puts one promise to the test before the user's eyes, and ends with a verdict. It speaks to
//! the server only as any client does.

pub mod duplicate;
pub mod herd;
mod load;
pub mod noisy_tenant;
pub mod receiver;
pub mod saturation;
pub mod slow;
mod throwaway;
pub mod two_destinations;
mod voice;

use std::time::Duration;

pub use throwaway::DrillError;
pub use voice::{Manner, Voice};

/// How often a drill looks whether something has happened.
const GLANCE: Duration = Duration::from_millis(20);

/// Looks until `reached` is true, at most for `most`; answers whether it is.
async fn wait_until(most: Duration, reached: impl AsyncFn() -> bool) -> bool {
    let watch = async {
        let mut glance = tokio::time::interval(GLANCE);
        while !reached().await {
            glance.tick().await;
        }
    };
    tokio::time::timeout(most, watch).await.is_ok()
}
