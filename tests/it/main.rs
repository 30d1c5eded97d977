//! The one integration binary: simulation, real sockets, the real program.

#[path = "../sim/mod.rs"]
mod sim;
mod simulation;
