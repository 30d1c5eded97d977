//! The deterministic simulation: the shipped engine on the real database over a disk in RAM, a
//! virtual clock, scripted receivers, and an oracle that asserts every invariant after every
//! step. A seed is a whole history; the same seed gives the same trace.

pub mod disk;
pub mod oracle;
pub mod receivers;
pub mod rng;
pub mod world;
