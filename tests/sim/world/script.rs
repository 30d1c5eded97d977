//! A history by a script: its bytes say what is done next, and with what. Any bytes are one.

use duehook::engine::command::{Command, Expect, StateVerb};
use duehook::engine::jobs::{JobOrder, JobPage, NewJob, page_size};
use duehook::model::{BulkAction, DeliveryId, JobState};
use duehook::store::Filter;
use duehook::time::Timestamp;

use super::{Event, Faults, SHORT, World, destination_name, settings, state};
use crate::sim::rng::Rng;

/// No script goes on for longer.
const MOST_OPERATIONS: u64 = 64;
/// Things that happen while nobody does anything, before somebody does again.
const MOST_TURNS: u64 = 8;
const VERBS: [StateVerb; 4] = [StateVerb::Pause, StateVerb::Resume, StateVerb::Disable, StateVerb::Enable];

impl World {
    /// A world that goes by a script.
    pub(crate) fn scripted(script: &[u8]) -> World {
        let mut world = World::by(Rng::given(script), Rng::new(0), Faults::Never);
        world.busy = SHORT;
        world.begin();
        for place in 0..world.moods.len() {
            let settings = world.settings[place].clone();
            world.put(place, settings);
        }
        world
    }

    /// Follows the script and brings what it has begun to its end. All that must be true is looked at
    /// after each operation.
    pub(crate) fn follow(&mut self) {
        self.turn();
        for n in 0..MOST_OPERATIONS {
            if !self.rng.is_given() {
                break;
            }
            self.operate(n);
            let file = self.engine().reader().snapshot().expect("it can be read");
            let now = self.now();
            self.oracle.whole(&file, now);
            self.oracle.none_overdue(&file, now);
        }
        self.busy = self.mono;
        self.run();
    }

    fn operate(&mut self, n: u64) {
        let place = self.rng.below(self.moods.len() as u64) as usize;
        match self.rng.below(19) {
            0..=3 => self.post(n),
            4 | 5 => return self.wait(place),
            6 => self.at(self.mono, Event::Mood(place)),
            7 | 8 => {
                let verb = VERBS[self.rng.below(4) as usize];
                self.order(state(place, verb));
            }
            9 => {
                let until = Timestamp(self.now().wall.0 + self.rng.below(60_000));
                let name = destination_name(place);
                self.order(Command::Hold { name, until, reason: String::new() });
            }
            10 => self.order(Command::Release { name: destination_name(place) }),
            11..=13 => self.order_of_one(),
            14 => {
                let settings = settings(place, self.tenants, self.concurrency, &mut self.rng);
                self.put(place, settings);
            }
            15 => self.begin_job(place),
            16 => self.turn_jobs(),
            17 => return self.step_clock(),
            _ => {
                self.post(n);
                let given = self.gather();
                return self.crash_in(given);
            }
        }
        self.turn();
    }

    fn order(&mut self, command: Command) {
        self.at(self.mono, Event::Command(command));
    }

    fn put(&mut self, place: usize, settings: duehook::model::Destination) {
        let (name, settings) = (destination_name(place), Box::new(settings));
        self.order(Command::PutDestination { name, settings, keep_secrets: true, expect: Expect::Anything });
    }

    fn post(&mut self, n: u64) {
        let (items, places) = (1 + self.rng.below(4), self.moods.len());
        let batch = (0..items).map(|item| self.new_delivery(n * 4 + item, places)).collect();
        self.at(self.mono, Event::Post(batch));
    }

    /// Time passes, and with it whatever was to happen until then.
    fn wait(&mut self, place: usize) {
        let until = self.mono + self.rng.below(1 << 16);
        self.at(until, Event::Mood(place));
        for _ in 0..MOST_TURNS {
            if self.mono < until {
                self.turn();
            }
        }
    }

    /// Something is ordered of one delivery that a producer was told of.
    fn order_of_one(&mut self) {
        let ids: Vec<DeliveryId> = self.oracle.told.keys().copied().collect();
        let which = self.rng.below(ids.len() as u64) as usize;
        let Some(id) = ids.get(which).copied() else { return };
        let command = match self.rng.below(3) {
            0 => Command::Cancel { id },
            1 => Command::Retry { id },
            _ => Command::Erase { id },
        };
        self.order(command);
    }

    fn begin_job(&mut self, place: usize) {
        let action = BulkAction::ALL[self.rng.below(BulkAction::ALL.len() as u64) as usize];
        let filter = Filter { destinations: vec![destination_name(place)], ..Filter::default() };
        let (dry_run, by) = (self.rng.percent(20), "drill".to_owned());
        let new = NewJob { action, filter, dry_run, rate_per_second: None, by };
        self.order(Command::Job(JobOrder::Start(Box::new(new))));
    }

    /// Each job that is running has its next page, or is stopped.
    fn turn_jobs(&mut self) {
        let file = self.engine().reader().snapshot().expect("it can be read");
        let jobs = file.jobs().expect("it can be read");
        for job in jobs.into_iter().filter(|job| job.state == JobState::Running) {
            let id = job.id;
            if self.rng.percent(10) {
                self.order(Command::Job(JobOrder::Stop { id }));
                continue;
            }
            let found = file.find(&job, job.come, page_size(&job), &|| false).expect("it can be read");
            let page = JobPage { id, from: job.come, ids: found.ids, come: found.come, end: found.end };
            self.order(Command::Job(JobOrder::Turn(page)));
        }
    }

    /// What a job has done to each delivery of its page is what an operator could have done.
    pub(super) fn note_job(&mut self, order: &JobOrder) {
        let JobOrder::Turn(page) = order else { return };
        let file = self.engine().reader().snapshot().expect("it can be read");
        let job = file.job(page.id).expect("it can be read").expect("it has had its turn");
        self.oracle.fire("a page of a job");
        for id in page.ids.iter().filter(|_| !job.dry_run) {
            match job.action {
                BulkAction::Retry => self.oracle.retried(*id),
                BulkAction::Cancel | BulkAction::Erase => self.oracle.cancelled(*id),
            }
        }
    }
}
