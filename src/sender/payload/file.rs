//! A payload in a file below an allowed folder, wherever links lead.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use rustix::fs::OFlags;

use super::Fault;

/// Reads the file `key` below the root, which must lie in `folder` when all links are followed.
pub(super) fn read(folder: &str, key: &str, max: usize) -> Result<Bytes, Fault> {
    let (folder, path) = (Path::new("/").join(folder), Path::new("/").join(key));
    // A folder that is not there is one that is not mounted: what it had may come back.
    let folder = folder.canonicalize().map_err(|_| Fault::unread("the folder of its prefix is not there"))?;
    let real = path.canonicalize().map_err(|error| missing(&error))?;
    below(&folder, &real)?;
    let file = open(&real).map_err(|error| missing(&error))?;
    // Somebody may have changed a folder on the way into a link since then.
    below(&folder, &where_it_is(&file).unwrap_or(real))?;
    let metadata = file.metadata().map_err(|error| missing(&error))?;
    if !metadata.is_file() {
        return Err(Fault::unread("it is not a regular file"));
    }
    whole(file, max)
}

fn below(folder: &Path, real: &Path) -> Result<(), Fault> {
    let inside = real.starts_with(folder);
    if inside { Ok(()) } else { Err(Fault::unread("a link leads out of the folder of its prefix")) }
}

/// Without following a link that has just been put there, and without waiting for a pipe's other end.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    OpenOptions::new().read(true).custom_flags(i32::from_ne_bytes(flags.bits().to_ne_bytes())).open(path)
}

/// The path of an open file, where the system tells it.
fn where_it_is(file: &File) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()
}

fn whole(file: File, max: usize) -> Result<Bytes, Fault> {
    let mut bytes = Vec::new();
    let read = file.take(max as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| missing(&error))?;
    if bytes.len() > max { Err(Fault::too_large(max)) } else { Ok(bytes.into()) }
}

fn missing(error: &io::Error) -> Fault {
    let kind = error.kind();
    if matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) {
        return Fault::Gone("its file is not there");
    }
    Fault::unread(format!("its file cannot be read: {kind}"))
}
