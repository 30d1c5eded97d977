//! The deterministic simulation: the shipped engine on the real database over a disk in RAM, a
//! virtual clock, scripted receivers, and an oracle that asserts every invariant after every
//! step. A seed is a whole history; the same seed gives the same trace.

pub(crate) mod crashes;
pub(crate) mod disk;
pub(crate) mod fairness;
pub(crate) mod gates;
pub(crate) mod oracle;
pub(crate) mod receivers;
pub(crate) mod rng;
pub(crate) mod rot;
pub(crate) mod world;
