//! duehook: accepted webhook deliveries are on disk before the answer leaves, are sent when they
//! are due, and end in one recorded outcome. One process, one file, one region.
//!
//! # The picture
//!
//! ```text
//!    producers ── http/ingest ─┐                      ┌─ http/admin, cli, status page
//!                              ▼ accepts              ▼ commands · queries · snapshots · Live
//!    clock, threads ──────  driver ◄── Report ──── sender ──HTTP──► receivers
//!                              │  ▲                    ▲
//!               step(now, batch)  Step{replies, dispatches}
//!                              ▼  │
//!                            engine   one thread, sans-io: no clock, no socket, no tokio
//!                        ┌─────┴─────┐
//!                     schedule      store (redb)     pure: delivery · outcome · policy · sign
//! ```
//!
//! A step is one transaction: reports, commands, sweeps, accepts, claims, one commit; then the
//! replies and the sends that it made true. Read [`engine`] for its order, [`store`] for what is
//! on disk, [`schedule`] for who is next, [`outcome::decide`] for what an answer means, and
//! [`delivery::next`] for what may happen to a delivery.
//!
//! # Invariants
//!
//! `store::check` and the simulation (`tests/sim`) assert them after every step and every crash.
//!
//! 1. A 202 means that the delivery is on disk. No reply leaves before the commit that makes it true.
//! 2. A waiting delivery has exactly one row in `due`, a leased one exactly one in `leases`, an
//!    ended one exactly one in `finished`, and nothing has two of them.
//! 3. A delivery has at most one live lease. A report under another changes nothing, unless it is
//!    a 2xx for what has not ended.
//! 4. One lease is at most one request: no redirects, no retries in the transport.
//! 5. Id, key and bytes are the same in every attempt, across restarts; attempt numbers only rise.
//! 6. Nothing is sent before its due time, nor while its destination is held, paused or disabled.
//! 7. A claim reads `due` and nothing else; no record of a blocked destination is read. A 429
//!    writes a fixed number of rows, whatever waits. Between tenants that wait in one pool and
//!    band, what they were charged by weight differs by at most one charge of each.
//! 8. The engine reads no clock and never waits for the network; the sender never sees the store.
//! 9. Only `store/mod.rs` begins and commits, `store/backup.rs` in the copy it makes, and
//!    `store/inspect.rs` in RAM; only `driver/clock.rs` reads time; only `config.rs` reads the
//!    environment, but for systemd's own variables, which `cli/supervisor.rs` leaves to `sd-notify`,
//!    and `AWS_*`, which `sender/payload/bucket.rs` leaves to `object_store`.
//! 10. Everything that can grow has a named bound, and full is a refusal, not a wait.
//! 11. A storage error ends the process (75) with nothing of its step answered; a file that is
//!     damaged, newer or another region's is refused (78) unchanged.
//!
//! # Decisions
//!
//! What was decided otherwise than first designed, or where the design was silent, and why.
//!
//! - **Stopped claims are the engine's, a stop of the process is the schedule's**: the first is on
//!   disk and can be taken back, what was ordered last in a step counts, and an attempt that is cut
//!   off is only then treated as if the process had died.
//! - **A drain is a state of the claims, and its number the fence**: only that number ends it, and neither a
//!   restore nor a move of the file does. What an import has seen is a fence for each server in `meta`.
//! - **An import may come to a drained server**: that is the way back, and it starts nothing.
//! - **A line that is here already is unchanged though it is in flight**; only one that would replace it is
//!   refused. So an import can be run again while its deliveries go out.
//! - **What cannot be named stays behind**: an export counts damaged records, and what ended at deleted
//!   destinations. An unknown class or policy is a rejected line and not another's: configure it, run again.
//! - **`last` comes along** as the one attempt of an imported delivery, with what it says; so two exports of
//!   the same work are equal byte for byte, but for header and clock.
//! - **Imported ends stand in the feed where they arrived**: retention takes them by when they ended, and
//!   never sooner than what stands before them.
//! - **Figures go out before replies**: whoever was told that a server is drained never sees that it is not.
//! - **A backup says that it is one** (`meta`): the first start on it stops claims, whether it was
//!   restored or copied over the file. A failed read of the source ends the process; a full or
//!   failing target only ends the copy.
//! - **A hold is heard only when the ingest queue is empty**, and producers wait at the door: nobody
//!   who was let in waits longer than one who was not.
//! - **A key's row goes with its record** rather than by a sweep of its own: record and index rows
//!   then change in one function, `check` can demand the exact rows, and retention reads the
//!   record in any case.
//! - **A repeat of what was erased is a duplicate, whatever its body**: the digest went with the body,
//!   so the key alone decides. Sent again it would be a second delivery of one event.
//! - **A destination that its tenant makes again has its number again**: a key belongs to tenant and destination
//!   as long as the record of its delivery lives, also through a tool that deletes and creates.
//! - **An answer of the URL before teaches the gate nothing**: neither a 410 nor a 429 that was under way when
//!   an operator changed the URL or enabled the destination is about what is there now.
//! - **What is not the receiver's doing backs off by how often in a row**, and counts no failure: otherwise a
//!   store that is away would be asked by a thousand deliveries at once, again and again.
//! - **A browser is answered 401 with the page itself**, which asks for a token: it holds nothing of the server's.
//! - **Who keeps a full listener waiting longest goes for who is new**; whose request is being worked on, never.
//! - **Erased bytes go at once, also under an attempt**: one that has not read them yet finds them gone
//!   and is reported as not sent. That it was erased stands in the record, so a restart knows it too.
//! - **A table that comes later is no new format**: where a file lacks it, it is empty, and an inspection makes
//!   it in RAM. Nothing that was written before reads otherwise, so nobody has to be kept from going back.
//! - **A bulk job is its record and nothing else**: neither engine nor driver keeps anything of it, so after a
//!   crash nothing has to be put together. A page is found from a cursor and taken only if the job has come no
//!   further; id and deliveries come from one counter, so what is made later is known by its id.
//! - **Ready and delayed are, for a job, as of its beginning**: what was delayed then is cancelled though it is due
//!   when it has its turn. What has ended since is taken too, unless the filter asks for an end; no id comes
//!   to its turn twice, so that nothing a job retries comes round again.
//! - **`matched` is what was found so far**, changed and skipped together; counting all beforehand would
//!   read everything twice. A cancel counts nothing that has ended, and a retry skips what is due already:
//!   it would only lose its place.
//! - **A removal reads the destination's own lanes**, in order, inside steps: the walk over all records would
//!   take minutes for three that wait. It disables the destination first, or producers could keep it for ever.
//! - **Jobs stand still in a drained server**, and are not exported: what it has must not change under the export.
//! - **A job rests as long as its page took**: at least half of the engine's time is for everything else.
//! - **A hold counts as life**: it keeps commits back for at most 30 s, so health allows for it and
//!   the watchdog is fed in it; one that outlives its time does neither.
//! - **Waiting is counted by second**, not by minute: a retry due in five seconds would otherwise
//!   be shown as ready for up to a minute. What is due in more than an hour is counted by the minute
//!   until then, so that RAM is bounded by the seconds of an hour and the minutes of a month.
//! - **The count after an open is paged inside steps** (2,048 rows a step, read only): it is exact
//!   at every moment, needs no reader, and pins no page of the file.
//! - **Held work is split by lane**: which of a held destination's rows are due is not known row by
//!   row; what was attempted before is taken to be due later. `ready + held + delayed` is exact.
//! - **The record says waiting while it is leased**; a lease row tells the difference. A claim
//!   writes a lease and removes a due row, and does not touch the record.
//! - **A hold merges to the later end on both clocks** (simulation seed 463): after a step of the
//!   wall clock, the later one by monotonic time may be the earlier one on disk.
//! - **A lease that ends without a report counts as an interruption**, as a dead process does: five
//!   in a row are quarantined, and a report of any kind sets the count back.
//! - **Any answer widens a new gate**, a 500 too: it shows that somebody is there. Silence does not,
//!   and a hold sets it back to one. A destination that adapts goes by successes alone.
//! - **Debts between tenants end with the busy period**: where a pool has room and nobody waits for
//!   it, all are square. What is kept for ever would punish in a rush what cost nobody anything.
//! - **A learnt rate needs evidence and has a floor** (c105): five requests taken while something
//!   always waited, and never less than sending until it refuses would give. Without the floor a
//!   receiver that refuses one in sixteen by chance was paced down to one a second.
//! - **A lane's pages double from one row**: a probe after a hold reads the one row that it sends. With
//!   pages of 64 the held backlog of others cost 25 rows a claim.
//! - **Lanes are found in steps after the open**, the most urgent class first; until a lane is found,
//!   what comes anew for it is taken to stand behind rows on disk.
//! - **Cold requests borrow what nobody waits for**, as far as the slow pool could take them over
//!   should none be answered: a hundred thousand new destinations are first asked in 3 s, not 10.
//! - **What shuts an open gate closes it**, whenever it was asked; what comes while it is shut only
//!   makes it longer. A failed cohort halves an adaptive limit once, told by when each request
//!   went out, and counts whole towards the breaker.
//! - **Known destinations that stop answering all at once** can fill the fast pool before they are
//!   known to be slow: no limit of one destination bounds what thousands hold together. Half of the
//!   slots then turn slow after two seconds, and the rest come back with their timeouts.
//! - **What a lighter class leaves free** goes by its weight against the heaviest: nothing, a
//!   twentieth from half of it, a fifth below. Classes are the operator's; three were foreseen.
//! - **A rate of less than one request a second is stored with each claim**, a faster one is taken to
//!   be used up after a start: at most a second is lost, and no burst is given twice.
//! - **A destination that was known begins with four requests after a start**, or after a step of
//!   the clock that makes much due at once: a restart is no reason to ask a thousand receivers twice.
//! - **Settings that can be refused are tried before any takes effect**, the engine last: its commit is the
//!   point of no return, and has the entry of the audit log. A new `host_id` is in the file with it:
//!   the next start under that name is at home there.
//! - **A tenant has half of what the server holds** unless it is given more, its own attempts in flight not
//!   counted; after a start what waits is counted first, and until then a quota is a lower bound.
//! - **What is ordered and changes nothing leaves no entry**: the audit log says what was done. A
//!   backup has its entry once it is there, and a hold of commits before it keeps the entry back.
//! - **Libraries have no line in the log**, at any level: nobody here looks at their words, which may be what is
//!   sent. A panic is told by its place alone, for the same reason.
//! - **The config file may be read by others**: it has digests of tokens and no secret. A `tls_key` may not.
//! - **A class window that changes begins its histograms anew**: their buckets would be others.
//! - **A request that does not fit is refused whole**, but for items that repeat what is stored.
//! - **The runtime is woken once a step** with all replies and sends, and the engine only while it
//!   waits: a wake-up from outside is a system call, and one a report cost a quarter of the rate.
//! - **A class is pressed by its lag, not by its age**: what a hold made old is not served sooner
//!   by more weight, and the other classes would pay for it.
//! - **Places in the per-destination metrics are kept, not shared out anew**: there are never more
//!   series than places, so who has most waiting may have to wait for one, ten minutes at the most.
//! - **Whoever is not to be answered waits for ever**: a reply that is dropped is silence, and only an
//!   end in order sends the refusal. No flag has to be read at the right moment, and a panic in the
//!   engine is covered as well.
//! - **The ballast is given up while there is still a little room**, not only after a failed write:
//!   that would have ended the process. An open gives it up too, before it writes.
//! - **The watchdog is fed by a task that sees a new commit**, not by the engine's thread: a runtime
//!   that is stuck does not live either.
//! - **`object_store` reads buckets only**: its reader of files follows links out of a folder and waits
//!   for pipes, its reader of web servers needs a length and follows redirects. Both are short.
//! - **A reference is taken apart, not compared as text**: what could be read in two ways is refused, and
//!   what is stored is the one form that it has. A link inside a folder is followed, out of it never.
//! - **What is longer than `max_payload` or leads out of its folder cannot be read**, rather than being
//!   gone: an operator can mend both. So can one a store that refuses us, or a folder that is not mounted.
//! - **The digest of a first read is kept with its report**, in one commit. A process that dies before that
//!   has not fixed it: until an attempt is reported, a payload must not change.
//! - **A destination that is our own listener gets 422**: requests of ours carry `Duehook-*` headers that no
//!   route reads, whatever address or proxy they came by. No list of our own addresses could be complete.
//! - **With an `http` proxy a name that only its address admits is refused**: nobody here would see it.
//! - **Two-digit years follow `httpdate`** (70-99 are 19xx); a fraction of a second rounds up; a
//!   weekday that is wrong makes a date invalid.

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
