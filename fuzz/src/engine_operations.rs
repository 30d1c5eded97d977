//! Any bytes as a history of the shipped engine on a disk in RAM: what producers post, operators
//! order and receivers answer, with crashes and steps of the clock between. The oracle of the
//! simulation looks at every invariant after each operation.

use crate::sim::world::World;

/// Some twenty operations: longer histories are the simulation's, and many short ones find more.
const MOST: usize = 128;

pub fn target(bytes: &[u8]) {
    World::scripted(&bytes[..bytes.len().min(MOST)]).follow();
}

#[test]
fn corpus() {
    crate::over_corpus("engine_operations", target);
}
