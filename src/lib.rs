//! duehook
pub mod delivery;
pub mod engine;
pub mod model;
pub mod outcome;
pub mod policy;
pub mod schedule;
pub mod store;
pub mod time;
