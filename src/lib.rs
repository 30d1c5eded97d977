//! duehook
pub mod cli;
pub mod config;
pub mod delivery;
pub mod drill;
pub mod driver;
pub mod engine;
pub mod http;
pub mod metrics;
pub mod model;
pub mod outcome;
pub mod policy;
pub mod schedule;
pub mod sender;
pub mod sign;
pub mod store;
pub mod time;
