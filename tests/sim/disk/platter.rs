//! What lies on the disk and what only the system's cache has of it.

use std::io::{Error, ErrorKind, Result};

use crate::sim::rng::Rng;

/// What a drive writes as one.
const SECTOR: usize = 512;
/// A drive that is worse than it says tears its sectors too.
const SHRED: usize = 64;
/// A file takes its space in pieces of this size, when they are first written.
const BLOCK: usize = 4096;

/// Draws of a place that is not empty.
const TRIES: u64 = 6;

#[derive(Debug, Default)]
pub(super) struct Platter {
    /// What reads see.
    cache: Vec<u8>,
    /// What is there after the power went.
    durable: Vec<u8>,
    /// What was done since, in order.
    pending: Vec<Change>,
    /// Blocks that were written, and how many they are.
    blocks: Vec<bool>,
    used: usize,
    /// Blocks that can be used; None: as many as are wanted.
    most: Option<usize>,
}

#[derive(Debug)]
enum Change {
    Bytes { at: usize, bytes: Box<[u8]> },
    Length(usize),
}

/// What a loss of power has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lost {
    /// A write survived in part.
    pub(crate) torn: bool,
    /// A length was not kept.
    pub(crate) length: bool,
    /// Sectors were torn as well.
    pub(crate) shredded: bool,
}

impl Platter {
    pub(super) fn len(&self) -> usize {
        self.cache.len()
    }

    pub(super) fn seen(&self) -> &[u8] {
        &self.cache
    }

    pub(super) fn fill(&mut self, bytes: &[u8]) {
        self.set_len(bytes.len());
        self.write(0, bytes);
        self.sync();
    }

    pub(super) fn read(&self, at: usize, out: &mut [u8]) -> Result<()> {
        let from = self.cache.get(at..at + out.len()).ok_or(Error::from(ErrorKind::UnexpectedEof))?;
        out.copy_from_slice(from);
        Ok(())
    }

    pub(super) fn set_len(&mut self, length: usize) {
        self.cache.resize(length, 0);
        self.pending.push(Change::Length(length));
        let kept = length.div_ceil(BLOCK);
        let freed = self.blocks.iter().skip(kept).filter(|used| **used).count();
        self.used -= freed;
        self.blocks.resize(kept, false);
    }

    /// Writes inside the length only, as the database does.
    pub(super) fn write(&mut self, at: usize, bytes: &[u8]) {
        self.cache[at..at + bytes.len()].copy_from_slice(bytes);
        self.pending.push(Change::Bytes { at, bytes: bytes.into() });
        for block in blocks(at, bytes.len()) {
            self.used += usize::from(!std::mem::replace(&mut self.blocks[block], true));
        }
    }

    /// Everything that was done is on disk.
    pub(super) fn sync(&mut self) {
        for change in self.pending.drain(..) {
            match change {
                Change::Bytes { at, bytes } => keep(&mut self.durable, at, &bytes),
                Change::Length(length) => self.durable.resize(length, 0),
            }
        }
    }

    /// No byte of what was written is on disk, and it will not be tried again. A length is not
    /// forgotten: the next sync that works writes the file's size as it is then.
    pub(super) fn forget(&mut self) {
        self.pending.retain(|change| matches!(change, Change::Length(_)));
    }

    /// Of what was done since the last sync each sector is there or is not, by a chance of its
    /// own for this loss; lengths are kept up to any of them. Reads see what is left.
    pub(super) fn lose(&mut self, rng: &mut Rng) -> Lost {
        let percent = if rng.percent(10) { [0, 100][rng.below(2) as usize] } else { rng.below(101) };
        let grain = if rng.percent(25) { SHRED } else { SECTOR };
        let lengths = self.pending.iter().filter(|change| matches!(change, Change::Length(_))).count() as u64;
        let mut kept = rng.below(lengths + 1);
        let mut lost = Lost { length: kept < lengths, shredded: grain == SHRED, ..Lost::default() };
        for change in self.pending.drain(..) {
            match change {
                Change::Length(length) if kept > 0 => {
                    kept -= 1;
                    self.durable.resize(length, 0);
                }
                Change::Length(_) => {}
                Change::Bytes { at, bytes } => {
                    lost.torn |= tear(&mut self.durable, at, &bytes, grain, || rng.percent(percent));
                }
            }
        }
        self.cache.clone_from(&self.durable);
        self.recount();
        lost
    }

    /// After a loss blocks are used that hold something.
    fn recount(&mut self) {
        self.blocks = self.cache.chunks(BLOCK).map(|block| block.iter().any(|byte| *byte != 0)).collect();
        self.used = self.blocks.iter().filter(|used| **used).count();
    }

    pub(super) fn limit(&mut self, room: Option<u64>) {
        self.most = room.map(|room| self.used + room as usize / BLOCK);
    }

    pub(super) fn free(&self) -> u64 {
        self.most.map_or(u64::MAX, |most| (most.saturating_sub(self.used) * BLOCK) as u64)
    }

    pub(super) fn has_room(&self, at: usize, length: usize) -> bool {
        let Some(most) = self.most else { return true };
        let new = blocks(at, length).filter(|block| !self.blocks[*block]).count();
        new == 0 || self.used + new <= most
    }

    /// One bit, rather of what holds something than of empty space.
    pub(super) fn flip(&mut self, rng: &mut Rng) {
        self.sync();
        let mut at = rng.below(self.durable.len() as u64) as usize;
        for _ in 0..TRIES {
            if self.durable[at] != 0 {
                break;
            }
            at = rng.below(self.durable.len() as u64) as usize;
        }
        let bit = 1 << rng.below(8);
        self.durable[at] ^= bit;
        self.cache.clone_from(&self.durable);
    }
}

fn blocks(at: usize, length: usize) -> std::ops::Range<usize> {
    at / BLOCK..(at + length).div_ceil(BLOCK)
}

/// What of `bytes` is inside the file is put there.
fn keep(file: &mut [u8], at: usize, bytes: &[u8]) {
    let end = file.len().min(at + bytes.len());
    if at < end {
        file[at..end].copy_from_slice(&bytes[..end - at]);
    }
}

/// Puts there what survives of `bytes`, piece by piece; true when only a part did.
fn tear(file: &mut [u8], at: usize, bytes: &[u8], grain: usize, mut survives: impl FnMut() -> bool) -> bool {
    let (mut some, mut all, mut from) = (false, true, 0);
    while from < bytes.len() {
        let to = bytes.len().min(from + grain - (at + from) % grain);
        if survives() {
            keep(file, at + from, &bytes[from..to]);
            some = true;
        } else {
            all = false;
        }
        from = to;
    }
    some && !all
}

#[test]
fn a_loss_keeps_what_was_synced_and_any_of_the_rest() {
    let mut both = [false; 2];
    for seed in 0..100 {
        let mut rng = Rng::new(seed);
        let mut platter = Platter::default();
        platter.set_len(2 * BLOCK);
        platter.write(10, &[1; 600]);
        platter.sync();
        platter.write(0, &[2; 2_000]);
        platter.set_len(BLOCK);
        let lost = platter.lose(&mut rng);
        let mut byte = [0];
        platter.read(700, &mut byte).unwrap();
        both[usize::from(byte == [2])] = true;
        assert!(byte == [2] || byte == [0], "seed {seed}");
        platter.read(300, &mut byte).unwrap();
        assert!(byte == [2] || byte == [1], "seed {seed}");
        assert_eq!(platter.len(), if lost.length { 2 * BLOCK } else { BLOCK }, "seed {seed}");
    }
    assert_eq!(both, [true; 2]);
}

#[test]
fn a_forgotten_write_is_seen_until_the_cache_is_gone() {
    let mut platter = Platter::default();
    platter.set_len(BLOCK);
    platter.sync();
    platter.write(0, &[3; 8]);
    platter.forget();
    let mut seen = [0; 8];
    platter.read(0, &mut seen).unwrap();
    assert_eq!(seen, [3; 8]);
    platter.lose(&mut Rng::new(1));
    platter.read(0, &mut seen).unwrap();
    assert_eq!(seen, [0; 8]);
}

#[test]
fn what_is_full_takes_only_what_overwrites() {
    let mut platter = Platter::default();
    platter.set_len(4 * BLOCK);
    platter.write(0, &[1; 10]);
    platter.limit(Some(BLOCK as u64));
    assert_eq!(platter.free(), BLOCK as u64);
    assert!(platter.has_room(0, BLOCK) && platter.has_room(BLOCK, BLOCK));
    assert!(!platter.has_room(BLOCK - 1, BLOCK + 2));
    platter.write(BLOCK, &[1; 10]);
    assert!(platter.has_room(0, 2 * BLOCK) && !platter.has_room(2 * BLOCK, 1));
}
