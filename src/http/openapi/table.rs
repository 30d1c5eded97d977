//! The one table of operations. A new route is one entry here; a test fails while it has none.

mod deliveries;
mod destinations;
mod jobs;
mod server;

use super::operation::Operation;

/// All of them, by subject.
pub const OPERATIONS: [&[Operation]; 4] =
    [deliveries::OPERATIONS, destinations::OPERATIONS, jobs::OPERATIONS, server::OPERATIONS];
