//! Publishing: a picture of the totals, at most four times a second, made from sums that are
//! kept anyway.

use std::sync::Arc;

use super::live::{ClassLive, DestinationsLive, Live};
use super::{Core, PUBLISH_EVERY};
use crate::model::ClassNo;
use crate::schedule::Survey;
use crate::store::Claims;
use crate::time::{Mono, Now};

impl Core {
    /// A new picture, if something has changed since the last one and that is old enough.
    pub(super) fn publish(&mut self, now: Now, changed: bool) -> Option<Arc<Live>> {
        self.unpublished |= changed;
        if !self.unpublished || self.next_publish().is_some_and(|at| at > now.mono) {
            return None;
        }
        self.unpublished = false;
        self.last_publish = Some(now.mono);
        self.press(now.mono);
        Some(Arc::new(self.picture(now)))
    }

    /// Classes whose first attempts come late have more weight until they do not.
    fn press(&mut self, now: Mono) {
        self.tally.pressure.turn(now);
        for place in 0..self.tally.classes() {
            self.schedule.press(class_no(place), self.tally.pressure.is_late(place));
        }
    }

    /// When the next picture is due, if there is something new to show.
    pub(super) fn next_publish(&self) -> Option<Mono> {
        let last = self.last_publish.filter(|_| self.unpublished)?;
        Some(last.plus(PUBLISH_EVERY))
    }

    /// The totals as they are.
    pub(super) fn picture(&mut self, now: Now) -> Live {
        let rates = self.tally.rates(now.mono);
        let (slots, in_flight) = self.schedule.slots();
        let survey = self.survey(now);
        let mut figures = self.tally.figures.clone();
        figures.clock_steps = self.clock.steps;
        figures.clock_proven_at = self.clock.proven_at;
        Live {
            at: now.wall,
            step: self.step,
            counting: self.sweeps.counting(),
            claiming: self.schedule.is_claiming() && self.claims == Claims::Running,
            claims: self.claims,
            fence: self.fence,
            slots,
            in_flight,
            accepted_per_second: rates.accepted,
            finished_per_second: rates.finished,
            quarantined: self.tally.quarantined,
            full: self.unended() >= self.limits.max_deliveries,
            classes: (0..self.tally.classes())
                .map(|class| self.class(class, rates.claims[class], &survey))
                .collect(),
            forecast: self.schedule.forecast(now.wall),
            destinations: DestinationsLive {
                active: survey.active,
                held: survey.held,
                paused: survey.paused,
                disabled: survey.disabled,
            },
            disk: self.floor.live(),
            watched: self.watch.rows(&self.schedule, &self.directory, now),
            figures,
        }
    }

    /// What a pass over all gates shows: with very many of them, one of a moment ago.
    fn survey(&mut self, now: Now) -> Survey {
        if let Some((_, survey)) = self.surveyed.filter(|(until, _)| *until > now.mono) {
            return survey;
        }
        let survey = self.schedule.survey(now);
        let until = self.kept_until(now.mono);
        self.surveyed = (until > now.mono.plus(PUBLISH_EVERY)).then_some((until, survey));
        survey
    }

    fn class(&self, place: usize, claims_per_second: f64, survey: &Survey) -> ClassLive {
        let class = class_no(place);
        let waiting = self.schedule.class(class);
        let settings = self.directory.class_settings(class);
        ClassLive {
            name: settings.name.clone(),
            window: settings.window,
            ready: waiting.ready,
            held: waiting.held,
            delayed: waiting.delayed,
            leased: self.tally.leased[place],
            oldest_ready_at: survey.oldest_ready[place],
            oldest_held_at: survey.oldest_held[place],
            claims_per_second,
            first_attempt_p95: self.tally.p95(place),
        }
    }
}

fn class_no(place: usize) -> ClassNo {
    ClassNo(u8::try_from(place).expect("classes are few"))
}
