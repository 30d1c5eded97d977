//! The deterministic simulation: the shipped engine on the real database over a disk in RAM, a
//! virtual clock, scripted receivers, and an oracle that asserts every invariant after every
//! step. A seed is a whole history; the same seed gives the same trace.
//!
//! Where each invariant is checked (names without a path are functions of `oracle` and `world`):
//!
//! | invariant | checked by |
//! |---|---|
//! | S1 what was accepted is there, with its bytes, tenant, destination, region | `Oracle::whole` at every open and every 16 steps; the newest answered step in `World::die`; bytes on the wire in `Oracle::sent` |
//! | S2 one state, one end | `Oracle::whole`, `store::check` |
//! | S3 nothing is sent after its end or its cancel | `Oracle::sent`, `Oracle::cancelled` |
//! | S4 not before it is due, nor before a Retry-After | `Oracle::sent`, `Oracle::held`, `World::holds` |
//! | S5 one live lease; a stale report changes nothing | `Oracle::sent`, `World::durable`, `World::cut` |
//! | S6 no more in flight than allowed | `Oracle::sent`, `World::admitted`, `Engine::audit`; across processes only by the receivers, whose requests end with ours here |
//! | S7 an attempt is on disk before it is sent | `World::admitted`, the rising numbers of `Oracle::sent` |
//! | S8 same key and bytes each time | `Oracle::sent`, `Oracle::whole` |
//! | S9 one region | `Oracle::whole`; another region's file: `it/open.rs` (t17) |
//! | S10 index rows agree with records | `store::check` in `Oracle::whole`; counts in `Engine::audit` |
//! | S11 one delivery a key | `Oracle::tell`, repeats after a crash by `World::ask_again` |
//! | S12 an outcome is on disk before its slot is used again | `World::durable` |
//! | S13 no answer before the commit | `World::attempt` and `went_on`: a step in which the disk failed is not answered; `it/storage.rs` for the replies themselves |
//! | S14 no address outside the rules | not here: `sender/egress` and `it/sender.rs` |
//! | S15 no payload or secret in what is logged | not here, nor by a test over everything that is emitted |
//! | S16 signatures | not here: `it/sender.rs`, `it/http` |
//! | S17 a token sees its tenant | not here: tokens are not built yet |
//! | S18 bounded file | not here: `it/scenes/life.rs` (retention), the backup's tests |
//! | S19 a restored file sends nothing by itself | not here: `it/backup.rs` (t30, t31); stopped claims across a crash are one row of `meta` |
//! | S20 a seed is a history | `it/simulation.rs` (s20), `it/crashes.rs` |
//! | L1 work for a receiver that is well is delivered | `Oracle::all_ended`, `Oracle::none_forgotten` |
//! | L2 everything ends | `Oracle::all_ended`, `Oracle::none_overdue` |
//! | L3 one receiver does not crowd out another | `fairness`, `gates` (I11, I24); `it/scenes/fair.rs` |
//! | L4 a recovered process takes work again | `World::rise`, `World::told` |
//! | L5 a lease without a report ends in time | `World::cut`, and `Oracle::all_ended` |
//! | L6 a step of the clock loses and hurries nothing | `World::step_clock`, `Oracle::jumped` |

pub(crate) mod crashes;
pub(crate) mod disk;
pub(crate) mod fairness;
pub(crate) mod gates;
pub(crate) mod oracle;
pub(crate) mod receivers;
pub(crate) mod rng;
pub(crate) mod rot;
pub(crate) mod world;
