//! Metrics: the published figures as `OpenMetrics` text, under API.md's names.
//!
//! Worked out at the scrape from one immutable picture; nothing is counted here. No label ever
//! holds a tenant or a delivery, and every family with fixed label values is there from the start.

mod process;

use std::fmt::Error;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use crate::engine::live::{CLAMPED, ClassLive, Histogram, Live, RETRY_AFTER, WatchedLive};
use crate::outcome::{AttemptResult, Ending};
use crate::time::{Millis, Timestamp};

type Encoded = Result<(), Error>;

/// One scrape: the newest picture, what is known at the edges, and when.
#[derive(Debug)]
pub struct Scrape {
    pub live: Live,
    /// Deliveries that were not taken, by code: every code that there is.
    pub refusals: Vec<(&'static str, u64)>,
    /// The settings could be read when they were read last.
    pub reloaded: bool,
    /// How long steps with a commit took, and what they carried.
    pub commit_seconds: Histogram,
    pub commit_operations: Histogram,
    pub store_bytes: u64,
    /// Age of the oldest read transaction that is open.
    pub oldest_read: Millis,
    /// When the newest backup was finished.
    pub last_backup: Option<Timestamp>,
    /// None where it cannot be told.
    pub disk_free_bytes: Option<u64>,
    pub region: String,
    pub now: Timestamp,
}

impl Scrape {
    /// `OpenMetrics` text, ended by its `# EOF`.
    #[must_use]
    pub fn text(self) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut out = String::with_capacity(16 * 1024);
        text::encode(&mut out, &registry).expect("a string takes everything");
        out
    }
}

impl Collector for Scrape {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Encoded {
        let mut families = Families(encoder);
        self.totals(&mut families)?;
        self.classes(&mut families)?;
        self.attempts(&mut families)?;
        self.destinations(&mut families)?;
        process::encode(&mut families, self.now)
    }
}

impl Scrape {
    fn totals(&self, families: &mut Families<'_>) -> Encoded {
        let live = &self.live;
        let figures = &live.figures;
        families.gauge("duehook_slots", "attempts that may be in flight", None, live.slots.into())?;
        families.gauge("duehook_in_flight", "attempts in flight", None, live.in_flight.into())?;
        families.gauge(
            "duehook_claims_running",
            "1 while deliveries are claimed",
            None,
            f64::from(u8::from(live.claiming)),
        )?;
        let help = "deliveries that are never sent until an operator retries them";
        families.gauge("duehook_quarantined_deliveries", help, None, live.quarantined as f64)?;
        families.gauge(
            "duehook_store",
            "length of the data file",
            Some(Unit::Bytes),
            self.store_bytes as f64,
        )?;
        self.copies(families)?;
        if let Some(free) = self.disk_free_bytes {
            let help = "what is free of the disk that the data file is on";
            families.gauge("duehook_disk_free", help, Some(Unit::Bytes), free as f64)?;
        }
        families.counter(
            "duehook_leases_expired",
            "leases that ended without a report",
            figures.leases_expired,
        )?;
        families.counter(
            "duehook_clock_steps",
            "steps of the wall clock by over a second",
            figures.clock_steps,
        )?;
        let help = "repeats of a key that were answered with the delivery they repeat";
        families.counter("duehook_duplicates_suppressed", help, figures.duplicates)?;
        self.ingest(families)?;
        let build = [("version", env!("CARGO_PKG_VERSION")), ("region", &*self.region)];
        families.info("duehook_build", "this program", &build)
    }

    fn ingest(&self, families: &mut Families<'_>) -> Encoded {
        let figures = &self.live.figures;
        let mut rows = vec![("accepted", figures.accepted.iter().sum()), ("duplicate", figures.duplicates)];
        rows.extend(&self.refusals);
        families.counters("duehook_ingest", "deliveries that producers brought", "result", &rows)?;
        let rows = [(Vec::new(), &self.commit_seconds)];
        families.histograms("duehook_commit", "a step with its commit", Some(Unit::Seconds), &rows)?;
        let rows = [(Vec::new(), &self.commit_operations)];
        families.histograms("duehook_commit_operations", "what one commit carried", None, &rows)
    }

    /// What is read for long, when it was last copied, and whether the settings could be read.
    fn copies(&self, families: &mut Families<'_>) -> Encoded {
        let oldest = self.oldest_read.0 as f64 / 1_000.0;
        let help = "age of the oldest read transaction: what is freed meanwhile stays in the file";
        families.gauge("duehook_store_oldest_read", help, Some(Unit::Seconds), oldest)?;
        let last = self.last_backup.map_or(0.0, |at| at.0 as f64 / 1_000.0);
        let help = "when the newest backup was finished; 0 if there is none";
        families.gauge("duehook_backup_last_success_timestamp_seconds", help, None, last)?;
        let help = "1 unless the settings were refused when they were to be read again";
        let reloaded = f64::from(u8::from(self.reloaded));
        families.gauge("duehook_config_last_reload_successful", help, None, reloaded)
    }

    fn classes(&self, families: &mut Families<'_>) -> Encoded {
        let classes = &self.live.classes;
        let rows: Vec<_> = classes
            .iter()
            .flat_map(|class| {
                states(class).map(|(state, n)| ([("state", state), ("class", class.name.as_str())], n))
            })
            .collect();
        families.gauges("duehook_deliveries", "deliveries that have not ended", &rows)?;
        let of = |value: &dyn Fn(&ClassLive) -> f64| -> Vec<_> {
            classes.iter().map(|class| ([("class", class.name.as_str())], value(class))).collect()
        };
        let help = "deliveries that wait at destinations that let nothing through";
        families.gauges("duehook_held_deliveries", help, &of(&|class| class.held as f64))?;
        let window = of(&|class| class.window.0 as f64 / 1_000.0);
        families.gauges("duehook_class_window_seconds", "first attempts are to begin inside it", &window)?;
        let oldest = of(&|class| class.oldest_ready_at.map_or(0.0, |due| self.age(due)));
        let help = "age of the oldest delivery that is due at an open destination";
        families.gauges("duehook_due_unclaimed_oldest_seconds", help, &oldest)?;
        self.ends(families)?;
        self.ages(families)
    }

    /// Where the time of a claim went: ours and theirs.
    fn ages(&self, families: &mut Families<'_>) -> Encoded {
        let seconds = Some(Unit::Seconds);
        let rows = self.each_class(|figures, class| &figures.first_attempt_age[class]);
        let help = "from accepted, or not_before, to the first claim";
        families.histograms("duehook_first_attempt_age", help, seconds.clone(), &rows)?;
        let rows = self.each_class(|figures, class| &figures.scheduler_lag[class]);
        let help = "from the moment a claim could be made to the claim";
        families.histograms("duehook_scheduler_lag", help, seconds.clone(), &rows)?;
        let rows = self.each_class(|figures, class| &figures.gate_wait[class]);
        let help = "from due to the moment that its destination let it through";
        families.histograms("duehook_gate_wait", help, seconds, &rows)
    }

    /// Its age now, in seconds.
    fn age(&self, since: Timestamp) -> f64 {
        self.now.since(since).0 as f64 / 1_000.0
    }

    fn ends(&self, families: &mut Families<'_>) -> Encoded {
        let (classes, figures) = (&self.live.classes, &self.live.figures);
        let mut ends = Vec::new();
        let mut claims = Vec::new();
        for (place, class) in classes.iter().enumerate() {
            let class = ("class", class.name.as_str());
            for (end, n) in Ending::ALL.iter().zip(figures.finished[place]) {
                ends.push(([("outcome", end.as_str()), class], n));
            }
            for (kind, n) in ["first", "retry"].into_iter().zip(figures.claims[place]) {
                claims.push(([("kind", kind), class], n));
            }
        }
        families.counter_rows("duehook_deliveries_finished", "deliveries that ended", &ends)?;
        families.counter_rows("duehook_claims", "deliveries that were claimed", &claims)
    }

    fn attempts(&self, families: &mut Families<'_>) -> Encoded {
        let figures = &self.live.figures;
        let rows: Vec<_> = AttemptResult::ALL.iter().map(|it| it.as_str()).zip(figures.attempts).collect();
        families.counters("duehook_attempts", "attempts that ended", "result", &rows)?;
        let none: Vec<(&str, &str)> = Vec::new();
        let rows = [(none.clone(), &figures.attempt_duration)];
        let help = "from the send to its end";
        families.histograms("duehook_attempt_duration", help, Some(Unit::Seconds), &rows)?;
        let rows = [(none, &figures.attempts_per_delivery)];
        families.histograms("duehook_attempts_per_delivery", "attempts a delivery took", None, &rows)?;
        self.refused(families)
    }

    /// What receivers asked for, and how long they took to work again.
    fn refused(&self, families: &mut Families<'_>) -> Encoded {
        let figures = &self.live.figures;
        let mut rows = Vec::new();
        for (kind, counts) in RETRY_AFTER.iter().zip(figures.retry_after) {
            for (clamped, n) in CLAMPED.iter().zip(counts) {
                rows.push(([("kind", *kind), ("clamped", *clamped)], n));
            }
        }
        let help =
            "answers that may name a time, by what they named and the end of the policy's range it met";
        families.counter_rows("duehook_retry_after", help, &rows)?;
        let causes = ["rate_limited", "failure"].into_iter().zip(&figures.recovery);
        let rows: Vec<_> = causes.map(|(cause, times)| (vec![("cause", cause)], times)).collect();
        let help = "from a destination's first failure to its next success";
        families.histograms("duehook_recovery", help, Some(Unit::Seconds), &rows)
    }

    fn destinations(&self, families: &mut Families<'_>) -> Encoded {
        let it = self.live.destinations;
        let rows = [
            ([("state", "active")], it.active as f64),
            ([("state", "held")], it.held as f64),
            ([("state", "paused")], it.paused as f64),
            ([("state", "disabled")], it.disabled as f64),
        ];
        families.gauges("duehook_destinations", "destinations by state", &rows)?;
        self.watched(families)
    }

    /// The few destinations that have a place.
    fn watched(&self, families: &mut Families<'_>) -> Encoded {
        let of = |value: fn(&WatchedLive) -> f64| -> Vec<_> {
            let watched = self.live.watched.iter();
            watched.map(|it| ([("destination", it.name.as_str())], value(it))).collect()
        };
        let in_flight = of(|it| it.in_flight.into());
        families.gauges("duehook_destination_in_flight", "requests in flight to it", &in_flight)?;
        let limit = of(|it| it.limit.into());
        families.gauges("duehook_destination_limit", "requests that may be in flight to it", &limit)?;
        let help = "when its hold ends; 0 without one";
        let until = of(|it| it.hold_until.map_or(0.0, |until| until.0 as f64 / 1_000.0));
        families.gauges("duehook_destination_hold_until_timestamp_seconds", help, &until)?;
        let waiting = of(|it| it.waiting as f64);
        families.gauges("duehook_destination_waiting", "deliveries that wait for it", &waiting)
    }

    fn each_class<'a>(
        &'a self,
        of: impl Fn(&'a crate::engine::live::Figures, usize) -> &'a Histogram,
    ) -> Vec<(Vec<(&'a str, &'a str)>, &'a Histogram)> {
        let classes = self.live.classes.iter().enumerate();
        classes
            .map(|(place, class)| (vec![("class", class.name.as_str())], of(&self.live.figures, place)))
            .collect()
    }
}

fn states(class: &ClassLive) -> [(&'static str, f64); 4] {
    [
        ("ready", class.ready as f64),
        ("held", class.held as f64),
        ("delayed", class.delayed as f64),
        ("leased", class.leased as f64),
    ]
}

/// Writes one family after the other.
struct Families<'a>(DescriptorEncoder<'a>);

impl Families<'_> {
    fn gauge(&mut self, name: &str, help: &str, unit: Option<Unit>, value: f64) -> Encoded {
        let mut it = self.0.encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?;
        it.encode_gauge(&value)
    }

    fn gauges<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        rows: &[([(&str, &str); N], f64)],
    ) -> Encoded {
        let mut it = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, value) in rows {
            it.encode_family(labels)?.encode_gauge(value)?;
        }
        Ok(())
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) -> Encoded {
        let mut it = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        it.encode_counter::<NoLabelSet, u64, f64>(&value, None)
    }

    fn seconds_counter(&mut self, name: &str, help: &str, value: f64) -> Encoded {
        let mut it = self.0.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Counter)?;
        it.encode_counter::<NoLabelSet, f64, f64>(&value, None)
    }

    fn counters(&mut self, name: &str, help: &str, label: &str, rows: &[(&str, u64)]) -> Encoded {
        let rows: Vec<_> = rows.iter().map(|(value, n)| ([(label, *value)], *n)).collect();
        self.counter_rows(name, help, &rows)
    }

    fn counter_rows<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        rows: &[([(&str, &str); N], u64)],
    ) -> Encoded {
        let mut it = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, value) in rows {
            it.encode_family(labels)?.encode_counter::<NoLabelSet, u64, f64>(value, None)?;
        }
        Ok(())
    }

    fn histograms(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<Unit>,
        rows: &[(Vec<(&str, &str)>, &Histogram)],
    ) -> Encoded {
        let mut it = self.0.encode_descriptor(name, help, unit.as_ref(), MetricType::Histogram)?;
        for (labels, value) in rows {
            let bounds = value.bounds.iter().copied().chain([f64::INFINITY]);
            let buckets: Vec<_> = bounds.zip(value.buckets.iter().copied()).collect();
            let mut family = it.encode_family(labels)?;
            family.encode_histogram::<NoLabelSet>(value.sum, value.count(), &buckets, None)?;
        }
        Ok(())
    }

    fn info(&mut self, name: &str, help: &str, labels: &[(&str, &str)]) -> Encoded {
        let mut it = self.0.encode_descriptor(name, help, None, MetricType::Info)?;
        it.encode_info(&labels)
    }
}

#[cfg(test)]
#[path = "metrics/tests.rs"]
mod tests;
