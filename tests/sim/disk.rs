//! A disk in RAM under the real database, which fails as disks do: the process or the machine
//! stops at any operation, an operation fails, a failed sync forgets what it was to write, space
//! runs out, a bit flips, and, as a control, a sync lies.
//!
//! Operations count, and faults strike, only while the disk is watched: while the engine is at
//! work, and not while a test looks at what is on it.

mod platter;

use std::io::{Error, ErrorKind, Result};
use std::sync::{Arc, Mutex, MutexGuard};

use duehook::policy::splitmix64;
use redb::StorageBackend;

use crate::sim::rng::Rng;
pub(crate) use platter::Lost;
use platter::Platter;

/// A handle on the disk; every clone is the same one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    platter: Platter,
    watched: bool,
    armed: Option<Fault>,
    struck: Option<Struck>,
    /// The process that had it open is gone: nothing of what it still asks for happens.
    dead: bool,
    /// Syncs do nothing and say that all is well.
    lies: bool,
    /// Operations of each kind so far, in the order of [`Op`].
    counted: [u64; 4],
}

/// What can be asked of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Read,
    Write,
    SetLen,
    Sync,
}

/// One fault that waits for its operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The process ends at the operation that comes after so many that change something.
    Stop { after: u64 },
    /// The operation after so many of its kind fails.
    Fail { op: Op, after: u64, how: Failure },
}

/// How an operation fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// EIO.
    Io,
    /// ENOSPC.
    NoSpace,
    /// EIO from a sync, after which what it was to write is clean in the cache and not on disk.
    Forgets,
}

/// What has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Struck {
    Stopped,
    Failed(Op, Failure),
    /// There was no room for a write.
    Full,
}

impl Disk {
    /// A disk that holds these bytes.
    pub(crate) fn of(bytes: &[u8]) -> Disk {
        let disk = Disk::default();
        disk.lock().platter.fill(bytes);
        disk
    }

    /// The bytes as a process sees them now.
    pub(crate) fn image(&self) -> Vec<u8> {
        self.lock().platter.seen().to_vec()
    }

    /// From now on operations count, or do not.
    pub(crate) fn watch(&self, watched: bool) {
        self.lock().watched = watched;
    }

    /// This fault strikes next; counted from now.
    pub(crate) fn arm(&self, fault: Option<Fault>) {
        self.lock().armed = fault;
    }

    /// What has struck since the last restart.
    pub(crate) fn struck(&self) -> Option<Struck> {
        self.lock().struck
    }

    /// What has struck was of no account.
    pub(crate) fn forgive(&self) {
        self.lock().struck = None;
    }

    /// The process is gone: nothing of what it still asks for happens.
    pub(crate) fn cut(&self) {
        self.lock().dead = true;
    }

    /// Another process finds what the system has in its cache.
    pub(crate) fn restart(&self) {
        let mut inner = self.lock();
        (inner.dead, inner.struck, inner.armed) = (false, None, None);
    }

    /// The power went, or the cache was dropped: of what was not synced, some is there.
    pub(crate) fn lose(&self, rng: &mut Rng) -> Lost {
        self.lock().platter.lose(rng)
    }

    /// From now on a sync does nothing and says that all is well.
    pub(crate) fn lie(&self) {
        self.lock().lies = true;
    }

    /// So many bytes beyond what is used now; None: as many as are wanted.
    pub(crate) fn limit(&self, room: Option<u64>) {
        self.lock().platter.limit(room);
    }

    /// Bytes that can still be written.
    pub(crate) fn free(&self) -> u64 {
        self.lock().platter.free()
    }

    /// One bit changes where it lies.
    pub(crate) fn flip(&self, rng: &mut Rng) {
        self.lock().platter.flip(rng);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().expect("no test panics while it holds the disk")
    }
}

impl Inner {
    /// Counts an operation that is about to happen, and says whether it fails.
    fn admit(&mut self, op: Op) -> std::result::Result<(), Error> {
        if self.dead {
            return Err(Error::other("the process is gone"));
        }
        if !self.watched {
            return Ok(());
        }
        self.counted[op as usize] += 1;
        match self.armed.as_mut() {
            Some(Fault::Stop { after }) if op != Op::Read => match after.checked_sub(1) {
                Some(left) => *after = left,
                None => return self.stop(),
            },
            Some(Fault::Fail { op: which, after, how }) if *which == op => match after.checked_sub(1) {
                Some(left) => *after = left,
                None => {
                    let how = *how;
                    return self.fail(op, how);
                }
            },
            Some(_) | None => {}
        }
        Ok(())
    }

    fn stop(&mut self) -> std::result::Result<(), Error> {
        (self.armed, self.struck, self.dead) = (None, Some(Struck::Stopped), true);
        Err(Error::other("the process is killed here"))
    }

    fn fail(&mut self, op: Op, how: Failure) -> std::result::Result<(), Error> {
        (self.armed, self.struck) = (None, Some(Struck::Failed(op, how)));
        if how == Failure::Forgets {
            self.platter.forget();
        }
        // As the system says it: EIO has no kind of its own.
        Err(match how {
            Failure::Io | Failure::Forgets => Error::from_raw_os_error(5),
            Failure::NoSpace => Error::from(ErrorKind::StorageFull),
        })
    }

    /// How much of a write that fails or is cut off was done.
    fn done(&self, length: usize) -> usize {
        let chance = splitmix64(self.counted[Op::Write as usize]);
        if chance.is_multiple_of(2) { 0 } else { (chance >> 8) as usize % (length + 1) }
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> Result<u64> {
        Ok(self.lock().platter.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let mut inner = self.lock();
        inner.admit(Op::Read)?;
        inner.platter.read(offset as usize, out)
    }

    fn set_len(&self, len: u64) -> Result<()> {
        let mut inner = self.lock();
        inner.admit(Op::SetLen)?;
        inner.platter.set_len(len as usize);
        Ok(())
    }

    fn sync_data(&self) -> Result<()> {
        let mut inner = self.lock();
        inner.admit(Op::Sync)?;
        if !inner.lies {
            inner.platter.sync();
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        let mut inner = self.lock();
        let dead = inner.dead;
        if let Err(error) = inner.admit(Op::Write) {
            let done = if dead { 0 } else { inner.done(data.len()) };
            if done > 0 {
                inner.platter.write(offset as usize, &data[..done]);
            }
            return Err(error);
        }
        if inner.watched && !inner.platter.has_room(offset as usize, data.len()) {
            inner.struck = Some(Struck::Full);
            return Err(Error::from(ErrorKind::StorageFull));
        }
        inner.platter.write(offset as usize, data);
        Ok(())
    }
}
