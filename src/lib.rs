//! duehook
pub mod delivery;
pub mod model;
pub mod outcome;
pub mod policy;
pub mod time;
