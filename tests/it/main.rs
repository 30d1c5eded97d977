//! The one integration binary: simulation, real sockets, the real program.

#[path = "../sim/mod.rs"]
mod sim;

mod api;
mod cli;
mod config;
mod crash;
mod http;
mod open;
mod sender;
mod server;
mod simulation;

use server::{TestServer, server};
