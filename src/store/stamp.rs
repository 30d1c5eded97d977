//! What a file says of itself in `meta`: its format, region and runs, and who may not use it.

use super::open::{CRASH_WINDOW, FORMAT, OpenError, Opening, RunNote, UNSET_REGION};
use super::tables::Meta;
use super::{Claims, StoreError, claims, migrate};
use crate::model::class::FIRST_CLASSES;
use crate::model::{ClassNo, Name};
use crate::time::Timestamp;

/// What `meta` says of a file.
pub(super) struct Stamp {
    format: Option<u32>,
    region: Option<String>,
    epoch: u64,
    tick: (u64, u64),
    /// Start of the last run, whether it ended cleanly, its streak.
    run: Option<(u64, bool, u32)>,
    claims: Claims,
    fence: u64,
    /// Wall time and step that it was taken at, if it is a backup.
    pub(super) backup: Option<(u64, u64)>,
    host: Option<String>,
}

impl Stamp {
    pub(super) fn read(file: &super::Writing<'_>) -> Result<Stamp, StoreError> {
        Stamp::from(|word| file.meta(word))
    }

    pub(super) fn from(
        get: impl Fn(Meta) -> Result<Option<Vec<u8>>, StoreError>,
    ) -> Result<Stamp, StoreError> {
        let region = get(Meta::Region)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let tick = get(Meta::Tick)?.unwrap_or_default();
        let run = get(Meta::Run)?;
        let two =
            |bytes: &[u8]| (u64::from_le_bytes(bytes_at(bytes, 0)), u64::from_le_bytes(bytes_at(bytes, 8)));
        Ok(Stamp {
            claims: Claims::of(get(Meta::Claims)?.as_deref()),
            fence: claims::fence_of(get(Meta::Fence)?.as_deref()),
            backup: get(Meta::Backup)?.as_deref().map(two),
            host: get(Meta::Host)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
            format: get(Meta::Format)?.map(|bytes| u32::from_le_bytes(bytes_at(&bytes, 0))),
            region,
            epoch: get(Meta::Epoch)?.map_or(0, |bytes| u64::from_le_bytes(bytes_at(&bytes, 0))),
            tick: two(&tick),
            run: run.map(|bytes| {
                let streak = u32::from_le_bytes(bytes_at(&bytes, 9));
                (u64::from_le_bytes(bytes_at(&bytes, 0)), bytes.get(8) == Some(&1), streak)
            }),
        })
    }

    /// Why a server of `region` must not use the file; None for a file without a stamp, too.
    pub(super) fn refusal(&self, region: &Name) -> Option<OpenError> {
        if let Some(newer) = self.newer() {
            return Some(newer);
        }
        let file = self.region.as_deref().filter(|file| *file != region.as_str() && *file != UNSET_REGION)?;
        Some(OpenError::OtherRegion { file: file.to_owned(), asked: region.clone() })
    }

    /// The refusal of a file that a newer program wrote.
    pub(super) fn newer(&self) -> Option<OpenError> {
        let found = self.format.filter(|found| *found > FORMAT)?;
        Some(OpenError::NewerFormat { found })
    }

    /// True when it has to be brought to this format, before its records can be read.
    pub(super) fn is_older(&self) -> bool {
        self.format.is_some_and(|format| format < FORMAT)
    }

    /// The refusal of a file that no step leads on.
    pub(super) fn stranded(&self) -> Option<OpenError> {
        let found = self.format.filter(|_| self.is_older())?;
        let known = migrate::STEPS.iter().any(|step| step.from == found);
        (!known).then_some(OpenError::NoWay { found })
    }

    pub(super) fn is_stamped(&self) -> bool {
        self.format.is_some() && self.region.is_some()
    }

    pub(super) fn begin_run(
        &self,
        file: &mut super::Writing<'_>,
        opening: &Opening<'_>,
    ) -> Result<(), StoreError> {
        if !self.is_stamped() {
            file.put_meta(Meta::Format, &FORMAT.to_le_bytes())?;
            file.put_meta(Meta::Uuid, &opening.uuid)?;
            for (no, (class, ..)) in (0..).zip(FIRST_CLASSES) {
                file.put_class(&class.parse().expect("it is a name"), ClassNo(no))?;
            }
        }
        file.put_meta(Meta::Region, opening.region.as_str().as_bytes())?;
        file.put_meta(Meta::Epoch, &(self.epoch + 1).to_le_bytes())?;
        put_run(file, opening.now, false, self.streak())
    }

    /// A backup, or a file that another host served, starts with claims stopped: what it holds
    /// may have been sent, or may be sent by the other.
    pub(super) fn settle(
        &mut self,
        file: &mut super::Writing<'_>,
        host: Option<&str>,
    ) -> Result<(), StoreError> {
        // A host without a name is not another than one with: it may just have been given one.
        let named = |host: Option<&str>| host.filter(|host| !host.is_empty()).map(str::to_owned);
        let moved = named(host).zip(named(self.host.as_deref())).is_some_and(|(now, before)| now != before);
        let found = self.claims.at_start(self.backup.is_some(), moved);
        if found != self.claims {
            self.claims = found;
            file.put_claims(found)?;
        }
        file.remove_meta(Meta::Backup)?;
        host.map_or(Ok(()), |host| file.put_host(host))
    }

    /// The file's region and format.
    pub(super) fn names(&self) -> (String, u32) {
        (self.region.clone().unwrap_or_default(), self.format.unwrap_or_default())
    }

    /// The step of the newest commit and its wall time.
    pub(super) fn tick(&self) -> (u64, Timestamp) {
        (self.tick.0, Timestamp(self.tick.1))
    }

    /// Deaths in a row, the last run's included if it died soon after its start.
    pub(super) fn streak(&self) -> u32 {
        match self.run {
            Some((started, false, streak)) if self.tick.1.saturating_sub(started) < CRASH_WINDOW.0 => {
                streak.saturating_add(1)
            }
            Some(_) | None => 0,
        }
    }

    pub(super) fn note(&self) -> RunNote {
        let (step, tick) = (self.tick.0, Timestamp(self.tick.1));
        let Stamp { claims, fence, .. } = *self;
        RunNote { step, tick, streak: self.streak(), epoch: self.epoch + 1, claims, fence }
    }
}

/// Says in the file that a run began or, `clean`, that it ended as it should.
pub(super) fn put_run(
    file: &mut super::Writing<'_>,
    started: Timestamp,
    clean: bool,
    streak: u32,
) -> Result<(), StoreError> {
    let mut value = [0; 13];
    value[..8].copy_from_slice(&started.0.to_le_bytes());
    value[8] = u8::from(clean);
    value[9..].copy_from_slice(&streak.to_le_bytes());
    file.put_meta(Meta::Run, &value)
}

/// `N` bytes from `at`, zero where there are none.
fn bytes_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    for (to, from) in out.iter_mut().zip(bytes.get(at..).unwrap_or_default()) {
        *to = *from;
    }
    out
}
