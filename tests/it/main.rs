//! The one integration binary: simulation, real sockets, the real program.

#[path = "../sim/mod.rs"]
mod sim;

mod api;
mod backup;
mod bulk;
mod canary;
mod cases;
mod cli;
mod config;
mod copies;
mod cost;
mod crash;
mod crashes;
mod disk;
mod handover;
mod http;
mod open;
mod openapi;
mod ops;
mod private;
mod reference;
mod rot;
mod scenes;
mod schedule;
mod sender;
mod server;
mod simulation;
mod soak;
mod stop;
mod storage;
mod supervisor;
mod verify;
mod ways;

use server::{TestServer, server};
