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

use crate::engine::live::{ClassLive, Histogram, Live};
use crate::outcome::{AttemptResult, Ending};
use crate::time::Timestamp;

type Encoded = Result<(), Error>;

/// One scrape: the newest picture, what is known of the file, and when.
#[derive(Debug)]
pub struct Scrape {
    pub live: Live,
    pub store_bytes: u64,
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
        let rows = [("accepted", figures.accepted.iter().sum()), ("duplicate", figures.duplicates)];
        families.counters("duehook_ingest", "deliveries that producers brought", "result", &rows)?;
        let build = [("version", env!("CARGO_PKG_VERSION")), ("region", &*self.region)];
        families.info("duehook_build", "this program", &build)
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
        let of = |value: fn(&ClassLive) -> f64| -> Vec<_> {
            classes.iter().map(|class| ([("class", class.name.as_str())], value(class))).collect()
        };
        let help = "deliveries that wait at destinations that let nothing through";
        families.gauges("duehook_held_deliveries", help, &of(|class| class.held as f64))?;
        let window = of(|class| class.window.0 as f64 / 1_000.0);
        families.gauges("duehook_class_window_seconds", "first attempts are to begin inside it", &window)?;
        self.ends(families)?;
        let rows: Vec<_> = self.each_class(|figures, class| &figures.first_attempt_age[class]);
        let help = "from accepted, or not_before, to the first claim";
        families.histograms("duehook_first_attempt_age", help, Some(Unit::Seconds), &rows)
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
        families.histograms("duehook_attempts_per_delivery", "attempts a delivery took", None, &rows)
    }

    fn destinations(&self, families: &mut Families<'_>) -> Encoded {
        let it = self.live.destinations;
        let rows = [
            ([("state", "active")], it.active as f64),
            ([("state", "held")], it.held as f64),
            ([("state", "paused")], it.paused as f64),
            ([("state", "disabled")], it.disabled as f64),
        ];
        families.gauges("duehook_destinations", "destinations by state", &rows)
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
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_fresh_start() {
        let (live, region) = (Live::empty(), "local".to_owned());
        let text = Scrape { live, store_bytes: 4_096, region, now: Timestamp(5_000) }.text();
        for line in [
            "duehook_store_bytes 4096.0",
            "duehook_attempts_total{result=\"rate_limited\"} 0",
            "duehook_attempt_duration_seconds_count 0",
            "duehook_attempt_duration_seconds_bucket{le=\"+Inf\"} 0",
            "duehook_destinations{state=\"held\"} 0.0",
            "# UNIT duehook_attempt_duration_seconds seconds",
        ] {
            assert!(text.lines().any(|found| found == line), "no line {line:?} in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }
}
