//! Opening the file: create it, or recognise it as ours, or look at it without changing a byte.
//!
//! *Ours* is a file that this host left there or crashed with (`owner`); it is opened as it is.
//! Anything else is inspected first (`inspect`): a copy made while its server ran can look whole
//! and be garbage. So is a small one that we crashed with: a copy put over it within seconds
//! cannot be told from it, and the look is over before anybody waits for it.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use redb::backends::FileBackend;
use redb::{Builder, Database, DatabaseError, StorageBackend, StorageError};

use super::owner::{Left, Owner};
use super::progress::{Pass, Progress, Told};
use super::stamp::Stamp;
use super::{Claims, Commit, Store, StoreError, inspect, migrate};
use crate::model::{Name, private};
use crate::time::{Millis, Timestamp};

/// The format this program writes; a newer one is refused.
pub const FORMAT: u32 = 1;
/// Pages kept in RAM. redb's own default of 1 GiB is more than the rest of the server needs.
pub const CACHE_BYTES: usize = 128 << 20;
/// The same over a backend that is no file.
const BACKEND_CACHE_BYTES: usize = 1 << 20;
/// A death this soon after a start counts towards a crash loop (DESIGN.md).
pub const CRASH_WINDOW: Millis = Millis(60_000);
/// What we crashed with is looked at when it is no larger: the look takes less than half a second.
pub const LOOK_UP_TO: u64 = 128 << 20;
/// The region that may be renamed: the one a file gets when none was set.
pub const UNSET_REGION: &str = "local";
/// What a redb file begins with.
const MAGIC: &[u8; 4] = b"redb";

/// What an open needs to be told, because the store reads neither clock nor chance.
pub struct Opening<'a> {
    pub region: &'a Name,
    pub now: Timestamp,
    /// Names a new file.
    pub uuid: [u8; 16],
}

/// A file that is open.
pub struct Opened {
    pub store: Store,
    pub run: RunNote,
}

/// What the last run left behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunNote {
    /// The step of the newest commit.
    pub step: u64,
    /// Its wall time.
    pub tick: Timestamp,
    /// Deaths in a row, each within [`CRASH_WINDOW`] of a start.
    pub streak: u32,
    pub epoch: u64,
    /// Whether deliveries may be claimed.
    pub claims: Claims,
    /// Of the newest drain.
    pub fence: u64,
}

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("{path} is in use by another process")]
    InUse { path: PathBuf },
    #[error("{path} {problem}; nothing was changed")]
    NotOurs { path: PathBuf, problem: String },
    #[error("the file belongs to region {file}, this server to {asked}; nothing was changed")]
    OtherRegion { file: String, asked: Name },
    #[error("the file has format {found}, this program knows {FORMAT}; use a newer duehook")]
    NewerFormat { found: u32 },
    #[error(
        "the file has format {found}, from which this program knows no way to {FORMAT}: start an older duehook on it first; nothing was changed"
    )]
    NoWay { found: u32 },
    #[error("{path}: {error}")]
    Io { path: PathBuf, error: std::io::Error },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl OpenError {
    /// 75 where a restart may help, 78 where it will not (API.md, exit codes).
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            OpenError::Store(error) => error.exit_code(),
            OpenError::InUse { .. } | OpenError::Io { .. } => 75,
            OpenError::NotOurs { .. }
            | OpenError::OtherRegion { .. }
            | OpenError::NewerFormat { .. }
            | OpenError::NoWay { .. } => 78,
        }
    }
}

/// Opens the file at `path`, or makes it where there is none. `told` hears how far a walk of the
/// file has come. The owner's note is gone after it, until the first heartbeat.
///
/// # Errors
/// [`OpenError`]; a file that is refused has not been changed.
pub fn open(path: &Path, host: &str, opening: &Opening<'_>, told: Told) -> Result<Opened, OpenError> {
    let io = |error| OpenError::Io { path: path.to_owned(), error };
    let length = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return create(path, host, opening),
        about => {
            let about = about.map_err(io)?;
            private(path, &about)?;
            admit(path, &about)?;
            about.len()
        }
    };
    let owner = Owner::beside(path, opening.region);
    let left = owner.left(path, host);
    if left == Some(Left::Closed) || left == Some(Left::Crashed) && length > LOOK_UP_TO {
        if inspect::is_in_use(path)? {
            return Err(OpenError::InUse { path: path.to_owned() });
        }
    } else {
        match left {
            None => {
                tracing::info!(path = %path.display(), "not as this host left it: checking the whole file first")
            }
            Some(_) => tracing::info!(path = %path.display(), "not closed, and small: checking it first"),
        }
        let stamp = inspect::look(path, opening.region, told)?;
        if stamp.is_older() {
            let kept = migrate::keep(path, env!("CARGO_PKG_VERSION"))?;
            tracing::info!(path = %kept.display(), "kept as it was, for an older duehook");
        }
    }
    // Whatever this open dies of, the next one looks at the file first.
    owner.take().map_err(io)?;
    let database = Builder::new()
        .set_cache_size(CACHE_BYTES)
        .set_repair_callback(move |session| told(Progress::share(Pass::Repair, session.progress(), length)))
        .open(path)
        .map_err(|error| from_redb(path, error))?;
    begin(database, Some(host), opening)
}

/// Opens a database on any backend, a new one included: what the simulation runs on.
///
/// # Errors
/// [`OpenError`] as for a file.
pub fn open_backend(backend: impl StorageBackend, opening: &Opening<'_>) -> Result<Opened, OpenError> {
    open_cached(backend, BACKEND_CACHE_BYTES, opening)
}

/// The same with so many bytes of pages in RAM: with few, the disk is asked more often.
///
/// # Errors
/// [`OpenError`] as for a file.
pub fn open_cached(
    backend: impl StorageBackend,
    cache_bytes: usize,
    opening: &Opening<'_>,
) -> Result<Opened, OpenError> {
    let made = Builder::new().set_cache_size(cache_bytes).create_with_backend(backend);
    begin(made.map_err(|error| from_redb(Path::new("memory"), error))?, None, opening)
}

/// Makes a file that nobody else can read, and makes sure that its name is on disk too.
fn create(path: &Path, host: &str, opening: &Opening<'_>) -> Result<Opened, OpenError> {
    let io = |error| OpenError::Io { path: path.to_owned(), error };
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create_new(true).mode(0o600).open(path).map_err(io)?;
    let made = Builder::new()
        .set_cache_size(CACHE_BYTES)
        .create_with_backend(FileBackend::new(file).map_err(|error| from_redb(path, error))?);
    let opened = begin(made.map_err(|error| from_redb(path, error))?, Some(host), opening)?;
    sync_folder(path).map_err(io)?;
    Ok(opened)
}

/// The folder that a file is in.
pub(super) fn folder(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes sure that the names in the folder of `path` are on disk.
pub(super) fn sync_folder(path: &Path) -> std::io::Result<()> {
    File::open(folder(path)).and_then(|folder| folder.sync_all())
}

/// A file that is served must be its owner's alone.
fn private(path: &Path, about: &fs::Metadata) -> Result<(), OpenError> {
    let judged = if about.is_file() { private::own(path, about.mode()) } else { Ok(()) };
    judged.map_err(|open| OpenError::NotOurs { path: path.to_owned(), problem: open.to_string() })
}

/// What can be said against a file before it is opened.
pub(super) fn admit(path: &Path, about: &fs::Metadata) -> Result<(), OpenError> {
    let io = |error| OpenError::Io { path: path.to_owned(), error };
    let refused = |problem: &str| OpenError::NotOurs { path: path.to_owned(), problem: problem.to_owned() };
    if about.is_symlink() {
        return Err(refused("is a link: name the file that it leads to"));
    }
    if !about.is_file() {
        return Err(refused("is not a regular file"));
    }
    if about.len() == 0 {
        return Err(refused("is empty: remove it to begin anew, or restore a backup"));
    }
    let mut magic = Vec::new();
    let file = File::open(path).map_err(io)?;
    file.take(MAGIC.len() as u64).read_to_end(&mut magic).map_err(io)?;
    if magic == MAGIC { Ok(()) } else { Err(refused("is not a duehook file")) }
}

pub(super) fn from_redb(path: &Path, error: DatabaseError) -> OpenError {
    let path = path.to_owned();
    let corrupt = |what: &dyn std::fmt::Display| format!("is corrupt ({what}): restore the newest backup");
    let problem = match &error {
        DatabaseError::DatabaseAlreadyOpen => return OpenError::InUse { path },
        DatabaseError::Storage(StorageError::Corrupted(what)) => Some(corrupt(what)),
        DatabaseError::Storage(StorageError::Io(error)) => is_about_content(error).then(|| corrupt(error)),
        DatabaseError::UpgradeRequired(_) => Some("was written by another version of redb".to_owned()),
        DatabaseError::Storage(_)
        | DatabaseError::LockProtocolMismatch
        | DatabaseError::RepairAborted
        | DatabaseError::TransactionInProgress
        | _ => None,
    };
    match problem {
        Some(problem) => OpenError::NotOurs { path, problem },
        None => OpenError::Store(error.into()),
    }
}

/// True when it is not the disk that failed: what stands in the file cannot be a database.
fn is_about_content(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof)
}

/// The first commit of a run: stamps a new file, checks an old one, and counts the start.
fn begin(database: Database, host: Option<&str>, opening: &Opening<'_>) -> Result<Opened, OpenError> {
    let mut store = Store::new(database, opening.region.clone());
    migrate::run(&store, migrate::STEPS, FORMAT)?;
    let stamp = store.write(Commit::QuickRepair, |file| {
        let mut stamp = Stamp::read(file)?;
        if stamp.refusal(opening.region).is_none() {
            stamp.begin_run(file, opening)?;
            stamp.settle(file, host)?;
        }
        Ok(stamp)
    })?;
    if let Some(refusal) = stamp.refusal(opening.region) {
        return Err(refusal);
    }
    store.region = opening.region.clone();
    Ok(Opened { store, run: stamp.note() })
}
