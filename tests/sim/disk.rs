//! A disk in RAM under the real database, whose bytes can be taken as they are at any operation:
//! what a process leaves that is killed just then.

use std::io::{Error, Result};
use std::sync::{Arc, Mutex};

use redb::StorageBackend;

/// A handle on the bytes; every clone is the same disk.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    bytes: Vec<u8>,
    /// Writes and syncs left until the image is taken.
    fuse: Option<u64>,
    image: Option<Vec<u8>>,
}

impl Disk {
    /// A disk that holds these bytes.
    pub(crate) fn of(bytes: Vec<u8>) -> Disk {
        Disk(Arc::new(Mutex::new(Inner { bytes, ..Inner::default() })))
    }

    /// The bytes as they are now.
    pub(crate) fn image(&self) -> Vec<u8> {
        self.lock().bytes.clone()
    }

    /// Takes the image after `operations` more writes and syncs.
    pub(crate) fn light(&self, operations: u64) {
        let mut inner = self.lock();
        inner.fuse = Some(operations);
        inner.image = None;
    }

    /// The image, if the fuse has burnt down.
    pub(crate) fn taken(&self) -> Option<Vec<u8>> {
        self.lock().image.take()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.0.lock().expect("no test panics while it holds the disk")
    }
}

impl Inner {
    /// Counts an operation that is about to happen.
    fn burn(&mut self) {
        match self.fuse {
            Some(0) => {
                self.fuse = None;
                self.image = Some(self.bytes.clone());
            }
            Some(left) => self.fuse = Some(left - 1),
            None => {}
        }
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> Result<u64> {
        Ok(self.lock().bytes.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let inner = self.lock();
        let start = offset as usize;
        let from = inner.bytes.get(start..start + out.len()).ok_or(Error::other("read beyond the end"))?;
        out.copy_from_slice(from);
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<()> {
        let mut inner = self.lock();
        inner.burn();
        inner.bytes.resize(len as usize, 0);
        Ok(())
    }

    fn sync_data(&self) -> Result<()> {
        self.lock().burn();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        let mut inner = self.lock();
        inner.burn();
        let start = offset as usize;
        inner.bytes[start..start + data.len()].copy_from_slice(data);
        Ok(())
    }
}
