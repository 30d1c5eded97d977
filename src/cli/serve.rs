//! `serve`: puts the parts together, says where they listen, and takes them apart again.

mod first;

use std::future::pending;
use std::io::IsTerminal as _;
use std::process::ExitCode;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::listeners::{Addresses, bind_all, doors, listen};
use super::log_switch::LogSwitch;
use super::reload::Reloader;
use super::{outward, process, supervisor};
use crate::config::{Auth, Listen, Listener, Loaded, Settings, Sources};
use crate::driver::backup::Plan;
use crate::driver::clock::Clock;
use crate::driver::{self, Custody, Driver, Handle};
use crate::engine::live::DestinationsLive;
use crate::engine::{Engine, Limits, Retention, Seed};
use crate::http::{App, Build};
use crate::sender::Sender;
use crate::store::{self, Claims, Disk, OpenError, Opening, Owner};
use crate::time::Millis;

/// What is cut has this long to be reported and committed before the process ends.
const CUT_TIME: Millis = Millis(1_000);
/// A restart may help: the store failed, or the file is in use (sysexits.h, `EX_TEMPFAIL`).
const TEMPORARY: u8 = 75;
/// A restart will not help: config, region, format or a corrupt file (`EX_CONFIG`).
const CONFIG: u8 = 78;
/// What helps when an address is taken.
const LISTEN_HINT: &str = "set another with DUEHOOK_INGEST__LISTEN or DUEHOOK_ADMIN__LISTEN, or listen in the \
                           config file's tables [ingest] and [admin]";
/// What this program is.
const BUILD: Build = Build {
    version: env!("CARGO_PKG_VERSION"),
    commit: match option_env!("DUEHOOK_COMMIT") {
        Some(commit) => commit,
        None => "unknown",
    },
    format: store::open::FORMAT,
};
/// Threads that may block: those of the driver, and as many for the rest, which is a reload now and then.
const BLOCKING_THREADS: usize = 2 * driver::BLOCKING_THREADS;
/// Slots need descriptors, and so does everything else.
const SLOTS_SHARE: u64 = 4;

/// Why a server does not serve.
#[derive(Debug, thiserror::Error)]
pub(super) enum ServeError {
    #[error("cannot open the data file: {0}")]
    Open(#[from] OpenError),
    #[error("the store failed: {0}")]
    Store(#[from] store::StoreError),
    #[error("cannot listen on {address}: {error}; {LISTEN_HINT}")]
    Listen { address: Listen, error: std::io::Error },
    #[error("the engine did not end in time after it was cut off: the next start checks the file")]
    Hung,
    #[error("opening the data file ended in a panic: the next start checks the whole file first")]
    Panicked,
    #[error("{0}")]
    Config(String),
    #[error("{0}")]
    System(#[from] std::io::Error),
}

impl ServeError {
    fn code(&self) -> u8 {
        match self {
            ServeError::Open(error) => error.exit_code(),
            ServeError::Store(error) => error.exit_code(),
            ServeError::Listen { .. } | ServeError::System(_) | ServeError::Hung | ServeError::Panicked => {
                TEMPORARY
            }
            ServeError::Config(_) => CONFIG,
        }
    }
}

/// Serves until it is told to stop; the exit code is API.md's.
#[must_use]
pub fn run(sources: Sources, loaded: Loaded) -> ExitCode {
    let log = LogSwitch::install(&loaded.settings.log);
    let meter = supervisor::Meter::open();
    if let Err(error) = process::close() {
        tracing::warn!(%error, "core files cannot be turned off: they may hold bodies and secrets");
    }
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.enable_all().max_blocking_threads(BLOCKING_THREADS).build();
    let served = runtime.map_err(ServeError::System).and_then(|runtime| {
        let served = runtime.block_on(serve(sources, loaded, log, meter));
        runtime.shutdown_background();
        served
    });
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            supervisor::failed(&error.to_string());
            tracing::error!(exit_code = error.code(), "{error}");
            ExitCode::from(error.code())
        }
    }
}

async fn serve(
    sources: Sources,
    loaded: Loaded,
    log: LogSwitch,
    meter: supervisor::Meter,
) -> Result<(), ServeError> {
    let settings = &loaded.settings;
    let mut signals = Signals::new()?;
    // From here on it ends nothing: a reload that is asked for during the open comes after it.
    let hangup = signal(SignalKind::hangup())?;
    let descriptors = raise_descriptors()?;
    check_slots(settings.send.slots, descriptors)?;
    let clock = Clock::start();
    // Whatever else can fail does so before the file is opened: a start that fails after it
    // would look like a crash to the next one.
    let doors = doors(settings)?;
    let sockets = bind_all(settings).await?;
    let sender = outward::sender(settings).map_err(ServeError::Config)?;
    let opening = supervisor::opening(&settings.data, meter);
    let (host, named) = watch::channel(host_id(settings));
    let (driver, handle) = open(settings, sender, &clock, named)?;
    drop(opening);
    let (stop, stopping) = watch::channel(());
    let mut listeners = JoinSet::new();
    let app = App::new(handle.clone(), settings, BUILD);
    app.config.show(loaded.shown.clone());
    let orders = app.config.listen();
    let (addresses, limits) = listen(settings, (sockets, doors), &app, &mut listeners, &stopping)?;
    let newcomer = std::io::stdout().is_terminal() && has_no_destination(&handle);
    announce(settings, addresses, newcomer);
    let (patience, patient) = watch::channel(settings.shutdown_timeout);
    let mut reloading = JoinSet::new();
    let reloader = Reloader { sources, loaded, app, limits, log, descriptors, patience, host };
    reloading.spawn(reloader.run(orders, hangup));
    let claims = handle.live().claims;
    if claims != Claims::Running {
        tracing::warn!(why = claims.detail(), "nothing is sent");
    }
    let living = supervisor::ready(handle);
    let ended = finish(driver, &patient, &mut signals, stop, listeners).await;
    drop(reloading);
    drop(living);
    ended
}

/// Opens the file and starts the engine on it.
fn open(
    settings: &Settings,
    sender: Sender,
    clock: &Clock,
    host: watch::Receiver<String>,
) -> Result<(Driver, Handle), ServeError> {
    let name = host.borrow().clone();
    let now = clock.now();
    let opening = Opening { region: &settings.region, now: now.wall, uuid: random()? };
    let disk = Disk::of(&settings.data, settings.ingest.min_free_disk);
    disk.relieve();
    let run = u64::from_le_bytes(random()?);
    let opening = std::panic::AssertUnwindSafe(|| {
        let opened = store::open::open(&settings.data, &name, &opening, supervisor::walked)?;
        Engine::open(opened, limits(settings), Seed { run }, now).map_err(refused)
    });
    let mut engine = std::panic::catch_unwind(opening).unwrap_or(Err(ServeError::Panicked))?;
    engine.watch(settings.metrics_destinations);
    engine.keep_free(settings.ingest.min_free_disk);
    let owner = Owner::beside(&settings.data, &settings.region);
    let (path, backups) = (settings.data.clone(), plan(settings));
    let last_words = supervisor::failed;
    let custody = Custody { path, host, owner, disk, run: now.wall, last_words, backups };
    Ok(driver::start(engine, sender, custody, clock.clone(), &tokio::runtime::Handle::current()))
}

/// Snapshots go beside the data file, unless their folder has a place of its own.
pub(super) fn plan(settings: &Settings) -> Option<Plan> {
    let set = settings.backup.as_ref()?;
    let folder = settings.data.parent().unwrap_or(std::path::Path::new(""));
    Some(Plan { dir: folder.join(&set.dir), every: set.every, keep: set.keep })
}

/// What is not the store's fault is not to be called so.
fn refused(error: store::StoreError) -> ServeError {
    match error {
        store::StoreError::ClassesFull { .. } => ServeError::Config(error.to_string()),
        store::StoreError::Redb(_)
        | store::StoreError::Damaged { .. }
        | store::StoreError::Closed
        | store::StoreError::Contradiction(_) => ServeError::Store(error),
    }
}

/// What names this machine: the setting, or what systemd made at installation.
pub(super) fn host_id(settings: &Settings) -> String {
    if !settings.host_id.is_empty() {
        return settings.host_id.clone();
    }
    let id = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
    id.trim().to_owned()
}

fn random<const N: usize>() -> Result<[u8; N], ServeError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| ServeError::Config(format!("no random bytes: {error}")))?;
    Ok(bytes)
}

pub(super) fn limits(settings: &Settings) -> Limits {
    let kept = &settings.retention;
    Limits {
        slots: settings.send.slots,
        max_deliveries: settings.ingest.max_deliveries,
        policies: settings.policies.clone(),
        classes: settings.classes.clone(),
        reserve_permille: settings.reserve_permille,
        tenant_weights: settings.tenant_weights.clone(),
        tenant_quotas: settings.tenant_quotas.clone(),
        retention: Retention {
            terminal: kept.terminal,
            max_terminal: kept.max_terminal,
            delivered_payload: kept.delivered_payload,
            failed_payload: kept.failed_payload,
            audit: kept.audit,
        },
        payload_timeout: outward::payload_timeout(settings),
    }
}

/// Raises the soft limit of descriptors to the hard one, and answers with that.
pub(super) fn raise_descriptors() -> std::io::Result<u64> {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let most = limit.maximum.unwrap_or(u64::MAX);
    setrlimit(Resource::Nofile, limit)?;
    Ok(most)
}

/// Slots beyond a quarter of the descriptors there can be are refused.
pub(super) fn check_slots(slots: u32, most: u64) -> Result<(), ServeError> {
    if u64::from(slots) > most / SLOTS_SHARE {
        let says = format!(
            "send.slots {slots} needs {} descriptors, the limit is {most}: lower it, or raise LimitNOFILE",
            u64::from(slots) * SLOTS_SHARE
        );
        return Err(ServeError::Config(says));
    }
    Ok(())
}

/// True for a file that nothing can be sent with yet.
fn has_no_destination(handle: &Handle) -> bool {
    let DestinationsLive { active, held, paused, disabled } = handle.live().destinations;
    active + held + paused + disabled == 0
}

/// Where it listens, on standard output: the log is elsewhere. To whoever is new, what to do next as well.
fn announce(settings: &Settings, [ingest, admin, metrics]: Addresses, newcomer: bool) {
    let (Some(ingest), Some(admin)) = (ingest, admin) else { return };
    let mut text = format!("ingest   {ingest}\nadmin    {admin}\n");
    if let Some(metrics) = metrics {
        text += &format!("metrics  {metrics}\n");
    }
    text += &format!("data     {}, region {}\n", settings.data.display(), settings.region);
    if newcomer && [&settings.ingest.listener, &settings.admin].iter().all(|it| is_open(it)) {
        text += &first::delivery(&ingest, &admin);
    }
    anstream::print!("{text}");
    tracing::info!(%ingest, %admin, region = %settings.region, "serving");
}

/// True where curl needs neither a token nor a socket.
fn is_open(listener: &Listener) -> bool {
    matches!(listener.listen, Listen::Tcp(_)) && listener.auth == Auth::None && listener.tls.is_none()
}

/// SIGTERM and SIGINT mean the same: stop, and the second time, at once.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> Result<Signals, ServeError> {
        let (terminate, interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        Ok(Signals { terminate, interrupt })
    }

    async fn next(&mut self) {
        let heard = tokio::select! {
            heard = self.terminate.recv() => heard,
            heard = self.interrupt.recv() => heard,
        };
        if heard.is_none() {
            pending::<()>().await;
        }
    }
}

/// Waits for the engine's end or a signal, and takes everything apart in order: no new work,
/// then sends end or are cut, then the engine closes the file, then the listeners.
async fn finish(
    mut driver: Driver,
    patience: &watch::Receiver<Millis>,
    signals: &mut Signals,
    stop: watch::Sender<()>,
    mut listeners: JoinSet<()>,
) -> Result<(), ServeError> {
    tokio::select! {
        ended = driver.ended() => return ended.map_err(ServeError::Store),
        () = signals.next() => {}
    }
    tracing::info!("stopping");
    let patience = *patience.borrow();
    supervisor::stopping(patience);
    driver.stop();
    let patient = timeout(patience.duration(), driver.ended());
    let ended = tokio::select! {
        ended = patient => ended.ok(),
        () = signals.next() => None,
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            driver.cut();
            listeners.abort_all();
            timeout(CUT_TIME.duration(), driver.ended()).await.map_err(|_| ServeError::Hung)?
        }
    };
    // After a failure nobody is waited for: what was asked is not answered.
    ended?;
    stop.send_replace(());
    while listeners.join_next().await.is_some() {}
    driver.join();
    tracing::info!("stopped");
    Ok(())
}
