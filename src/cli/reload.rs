//! The settings, read again while the server runs: all of them take effect, or none.
//!
//! Everything that can be refused is tried first: the file, what needs a restart, certificates, the
//! sender, and then the engine, in whose commit the audit log says so. What follows cannot fail.

use std::sync::Arc;

use tokio::signal::unix::Signal;
use tokio::sync::{mpsc, watch};
use tokio::task::spawn_blocking;

use super::listeners::{self, Doors};
use super::log_switch::LogSwitch;
use super::outward;
use super::serve;
use crate::config::{self, ConfigError, Loaded, Settings, Sources, differences};
use crate::engine::command::{Command, Configuration, OPERATOR, Order};
use crate::http::admin::config::Reload;
use crate::http::error::{Code, FieldError, Problem};
use crate::http::{App, Rulebook};
use crate::time::Millis;

/// What stands for the file as a whole where a field is named.
const FILE: &str = "config";

/// Who reads the settings again, when told to.
pub(super) struct Reloader {
    pub(super) sources: Sources,
    /// What is in force.
    pub(super) loaded: Loaded,
    pub(super) app: Arc<App>,
    pub(super) limits: Doors,
    pub(super) log: LogSwitch,
    /// How many there can be.
    pub(super) descriptors: u64,
    /// How long a stop waits.
    pub(super) patience: watch::Sender<Millis>,
    /// By what name this machine leaves the file.
    pub(super) host: watch::Sender<String>,
}

impl Reloader {
    /// Obeys SIGHUP and the admin listener, one order after the other, until it is dropped.
    pub(super) async fn run(mut self, mut orders: mpsc::Receiver<Reload>, mut hangup: Signal) {
        loop {
            tokio::select! {
                Some(Reload { by, reply }) = orders.recv() => {
                    let answer = self.reload(by).await;
                    // Whoever asked may have left.
                    let _left = reply.send(answer);
                }
                Some(()) = hangup.recv() => {
                    // Nobody hears that it is to be tried again.
                    self.app.handle.open().await;
                    drop(self.reload(OPERATOR.into()).await);
                }
                else => return,
            }
        }
    }

    /// Reads the settings and lets them take effect; the names of those that differ.
    async fn reload(&mut self, by: Arc<str>) -> Result<Vec<String>, Problem> {
        let answer = self.try_reload(by).await;
        self.app.config.note(answer.is_ok());
        match &answer {
            Ok(changed) => tracing::info!(changed = changed.join(", "), "settings read again"),
            Err(problem) => tracing::error!(why = %problem.detail, "settings refused, the old ones stay"),
        }
        answer
    }

    async fn try_reload(&mut self, by: Arc<str>) -> Result<Vec<String>, Problem> {
        let sources = self.sources.clone();
        let read = spawn_blocking(move || {
            let loaded = config::loaded(&sources)?;
            let host = serve::host_id(&loaded.settings);
            Ok((loaded, host))
        });
        let (loaded, host) = read.await.map_err(|_| internal())?.map_err(refused)?;
        let new = &loaded.settings;
        needs_restart(&self.loaded.settings, new)?;
        serve::check_slots(new.send.slots, self.descriptors).map_err(|error| named(error.to_string()))?;
        let sender = outward::sender(new).map_err(named)?;
        let doors = listeners::doors(new).map_err(|error| named(error.to_string()))?;
        let changed = differences(&self.loaded.shown, &loaded.shown);
        self.order(by, new, &host, &changed).await?;
        self.app.handle.follow(sender, serve::plan(new), new.ingest.min_free_disk);
        self.app.set_rulebook(Rulebook::of(new));
        self.app.keyring.replace(new.tokens.clone());
        for (limits, door) in self.limits.iter().zip(doors) {
            if let (Some(limits), Some(door)) = (limits, door) {
                limits.replace(door);
            }
        }
        self.log.set(&new.log);
        self.patience.send_replace(new.shutdown_timeout);
        self.host.send_replace(host);
        self.app.config.show(loaded.shown.clone());
        self.loaded = loaded;
        Ok(changed)
    }

    /// The engine's part, and the entry of the audit log.
    async fn order(
        &self,
        by: Arc<str>,
        new: &Settings,
        host: &str,
        changed: &[String],
    ) -> Result<(), Problem> {
        let changes = match changed {
            [] => "nothing differs".to_owned(),
            names => format!("changed {}", names.join(", ")),
        };
        let configuration = Configuration {
            limits: serve::limits(new),
            min_free_disk: new.ingest.min_free_disk,
            watched: new.metrics_destinations,
            host: host.to_owned(),
            changes,
        };
        let what = Command::Configure(Box::new(configuration));
        self.app.handle.command(Order::of(&by, what)).await??;
        Ok(())
    }
}

/// What cannot change while the server runs is named, all of it at once.
fn needs_restart(old: &Settings, new: &Settings) -> Result<(), Problem> {
    let listen = |settings: &Settings| {
        listeners::all_listeners(settings).map(|listener| listener.map(|it| it.listen.clone()))
    };
    let ([ingest, admin, metrics], [ingest_now, admin_now, metrics_now]) = (listen(new), listen(old));
    let fixed = [
        ("region", old.region != new.region),
        ("data", old.data != new.data),
        ("ingest.listen", ingest != ingest_now),
        ("admin.listen", admin != admin_now),
        ("metrics.listen", metrics != metrics_now),
    ];
    let changed = fixed.into_iter().filter(|(_, changed)| *changed);
    let errors: Vec<FieldError> =
        changed.map(|(name, _)| FieldError::new(name, "it takes effect at the next start only")).collect();
    if errors.is_empty() { Ok(()) } else { Err(Problem::invalid(errors)) }
}

/// 422 with the key that is at fault, which its detail does not say again.
fn refused(error: ConfigError) -> Problem {
    match error {
        ConfigError::Unreadable { .. } | ConfigError::Syntax { .. } => {
            Problem::field(FILE, error.to_string())
        }
        ConfigError::Unknown { kind, key, origin, known } => {
            Problem::field(key, format!("unknown {kind} ({origin}){known}"))
        }
        ConfigError::Invalid { key, origin, allowed } => {
            Problem::field(key, format!("must be {allowed} ({origin})"))
        }
    }
}

/// The key at fault stands before the first space of what is said.
fn named(said: String) -> Problem {
    match said.split_once(' ') {
        Some((key, rest)) if key.contains('.') => Problem::field(key.to_owned(), rest.to_owned()),
        Some(_) | None => Problem::field(FILE, said),
    }
}

fn internal() -> Problem {
    Problem::new(Code::Internal, "the settings could not be read")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_needs_a_restart_is_named() {
        let check = |text: &str, want: &[&str]| {
            let old = config::parse("[metrics]\nlisten = '127.0.0.1:9'").unwrap();
            let refused = needs_restart(&old, &config::parse(text).unwrap()).err();
            let errors = refused.map(|problem| problem.errors).unwrap_or_default();
            let named: Vec<&str> = errors.iter().map(|error| &*error.field).collect();
            assert_eq!(named, want, "{text}");
        };
        check("[metrics]\nlisten = '127.0.0.1:9'\nauth = 'none'\n[send]\nslots = 1", &[]);
        check("region = 'eu'\n[metrics]\nlisten = '127.0.0.1:9'", &["region"]);
        check("data = 'x'\nhost_id = 'y'", &["data", "metrics.listen"]);
        check(
            "[metrics]\nlisten = '127.0.0.1:9'\n[ingest]\nlisten = '127.0.0.1:1'\n[admin]\nlisten = 'unix:/x'",
            &["ingest.listen", "admin.listen"],
        );
    }

    #[test]
    fn a_refusal_names_its_key() {
        let check = |text: &str, field: &str| {
            let problem = refused(config::parse(text).unwrap_err());
            assert_eq!(
                problem.errors.iter().map(|error| &*error.field).collect::<Vec<_>>(),
                [field],
                "{text}"
            );
        };
        check("[send]\nslots = 0", "send.slots");
        check("[send]\nslot = 1", "send.slot");
        check("x", "config");
        check("[sned]", "[sned]");
    }

    #[test]
    fn a_refusal_names_its_key_once() {
        let check = |problem: Problem, want: &str| assert_eq!(problem.detail, want);
        let config = |text: &str| refused(config::parse(text).unwrap_err());
        let slots = "send.slots: must be a whole number from 1 to 100000 (config file, line 2)";
        check(config("[send]\nslots = 0"), slots);
        let unknown = config("[send]\nslotz = 0").detail;
        assert!(
            unknown.starts_with("send.slotz: unknown key (config file, line 2): did you mean slots?"),
            "{unknown}"
        );
        check(named("admin.tls_cert /x: gone".into()), "admin.tls_cert: /x: gone");
        check(named("nothing is there".into()), "config: nothing is there");
    }
}
