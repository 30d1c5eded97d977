//! The usual `process_` metrics, as `/proc` tells them. What cannot be read is left out.

use std::fs;

use super::{Encoded, Families};
use crate::time::Timestamp;
use prometheus_client::registry::Unit;

/// Ticks a second in `/proc/self/stat`: fixed by the kernel's interface on Linux.
const TICKS: f64 = 100.0;
const PAGE: f64 = 4_096.0;

/// Writes what is known of this process.
pub(super) fn encode(families: &mut Families<'_>, now: Timestamp) -> Encoded {
    if let Some(stat) = Stat::read() {
        families.seconds_counter("process_cpu", "processor time used", stat.cpu_seconds)?;
        let help = "memory held";
        families.gauge("process_resident_memory", help, Some(Unit::Bytes), stat.resident_bytes)?;
        let start = now.0 as f64 / 1_000.0 - stat.age_seconds;
        families.gauge("process_start_time", "when it began", Some(Unit::Seconds), start)?;
    }
    if let Ok(entries) = fs::read_dir("/proc/self/fd") {
        let open = entries.count() as f64;
        families.gauge("process_open_fds", "descriptors open", None, open)?;
    }
    Ok(())
}

struct Stat {
    cpu_seconds: f64,
    resident_bytes: f64,
    age_seconds: f64,
}

impl Stat {
    /// Fields 14, 15, 22 and 24 of `stat` (proc_pid_stat(5)), and the machine's uptime.
    fn read() -> Option<Stat> {
        let text = fs::read_to_string("/proc/self/stat").ok()?;
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
        let uptime = fs::read_to_string("/proc/uptime").ok()?;
        let uptime: f64 = uptime.split_whitespace().next()?.parse().ok()?;
        Some(Stat {
            cpu_seconds: (field(14)? + field(15)?) / TICKS,
            resident_bytes: field(24)? * PAGE,
            age_seconds: uptime - field(22)? / TICKS,
        })
    }
}
