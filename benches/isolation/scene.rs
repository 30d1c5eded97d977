//! What a run is made of, as data: destinations and how their receivers behave, what waits when
//! it begins, what arrives, and who is watched. Never how it is to be scheduled.

use duehook::policy::splitmix64;

/// How a receiver answers. Times are milliseconds of the run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Receiver {
    /// 204 after so long.
    Healthy(u64),
    /// 204, quickly until `from` and after `takes` since.
    SlowFrom { from: u64, takes: u64 },
    /// 429 with `Retry-After`, until a time.
    Limited { wait: u64, until: u64 },
    /// So many a second, the rest 429 with `Retry-After`.
    Allows { per_second: u64, wait: u64 },
    /// 429 that names this moment, until then.
    Until(u64),
    /// 500, until a time.
    Broken(u64),
}

/// How long a receiver takes that is not slow.
pub(crate) const QUICK: u64 = 50;

/// Receivers of one kind that are looked at together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    pub(crate) name: &'static str,
    /// What they receive has nothing to do with the trouble: its lag is what counts.
    pub(crate) victim: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Destination {
    pub(crate) tenant: u32,
    pub(crate) group: u8,
    pub(crate) receiver: Receiver,
    /// How long it took to answer before the run; None: it was never seen.
    pub(crate) known: Option<u64>,
}

/// Rows that wait when the run begins: so many for each of these destinations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backlog {
    pub(crate) first: u32,
    pub(crate) destinations: u32,
    pub(crate) each: u32,
    pub(crate) class: u8,
    /// Claims before the run: 0 for work that was never attempted.
    pub(crate) attempts: u32,
    pub(crate) due: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Arrival {
    pub(crate) at: u64,
    pub(crate) destination: u32,
    pub(crate) class: u8,
    /// Not to be sent before; 0: at once.
    pub(crate) not_before: u64,
}

/// What happens to the clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Jolt {
    /// The wall clock jumps.
    Step { at: u64, by: i64 },
    /// The whole machine stands still.
    Pause { at: u64, lasts: u64 },
}

/// Tenants that always have work, and when to compare what they were given.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fair {
    pub(crate) tenants: u32,
    pub(crate) from: u64,
    pub(crate) to: u64,
}

/// One run.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    pub(crate) slots: u32,
    /// The run ends here.
    pub(crate) until: u64,
    /// Victims are watched from here.
    pub(crate) from: u64,
    pub(crate) groups: Vec<Group>,
    pub(crate) destinations: Vec<Destination>,
    pub(crate) backlog: Vec<Backlog>,
    pub(crate) arrivals: Vec<Arrival>,
    pub(crate) jolts: Vec<Jolt>,
    pub(crate) fair: Option<Fair>,
}

/// Where the trouble begins, once everyone known has been sent to.
pub(crate) const TROUBLE: u64 = 5_000;

impl Scene {
    pub(crate) fn new(slots: u32, until: u64) -> Scene {
        Scene {
            slots,
            until,
            from: TROUBLE,
            groups: Vec::new(),
            destinations: Vec::new(),
            backlog: Vec::new(),
            arrivals: Vec::new(),
            jolts: Vec::new(),
            fair: None,
        }
    }

    pub(crate) fn group(&mut self, name: &'static str, victim: bool) -> u8 {
        self.groups.push(Group { name, victim });
        (self.groups.len() - 1) as u8
    }

    /// Adds destinations of `tenants` new tenants, turn about; gives the number of the first.
    pub(crate) fn destinations(&mut self, group: u8, count: u32, tenants: u32, receiver: Receiver) -> u32 {
        let first = self.destinations.len() as u32;
        let tenant = self.destinations.iter().map(|it| it.tenant + 1).max().unwrap_or(0);
        for n in 0..count {
            let tenant = tenant + n % tenants;
            self.destinations.push(Destination { tenant, group, receiver, known: None });
        }
        first
    }

    /// These have answered before the run, after so long.
    pub(crate) fn know(&mut self, first: u32, destinations: u32, took: u64) {
        let known = &mut self.destinations[first as usize..][..destinations as usize];
        known.iter_mut().for_each(|it| it.known = Some(took));
    }

    /// So many rows wait for each destination from `TROUBLE` on. Who has had an attempt is known.
    pub(crate) fn wave(&mut self, first: u32, destinations: u32, each: u32, attempts: u32) {
        if attempts > 0 {
            self.know(first, destinations, QUICK);
        }
        self.backlog.push(Backlog { first, destinations, each, class: 1, attempts, due: TROUBLE });
    }

    /// One delivery to each destination before the trouble, spread over two seconds, so that
    /// they are known, and allowed more than a first few requests.
    pub(crate) fn greet(&mut self, first: u32, destinations: u32) {
        self.know(first, destinations, QUICK);
        self.arrivals.extend((0..destinations).map(|n| greeting(first, destinations, n)));
    }

    /// `per_second` arrivals by chance over these destinations, in turn, until a second before
    /// the end at the latest: what comes then could not be waited for.
    pub(crate) fn flow(
        &mut self,
        seed: u64,
        per_second: f64,
        (from, to): (u64, u64),
        (first, destinations): (u32, u32),
        class: u8,
    ) {
        let mut rng = Rng::new(seed ^ u64::from(first));
        let mut at = from as f64;
        let mut n = 0;
        let to = to.min(self.until - 1_000);
        loop {
            at += rng.exponential() * 1_000.0 / per_second;
            if at >= to as f64 {
                return;
            }
            let destination = first + n % destinations;
            n += 1;
            self.arrivals.push(Arrival { at: at as u64, destination, class, not_before: 0 });
        }
    }

    /// Rows that wait when the run begins.
    pub(crate) fn waiting(&self) -> u64 {
        self.backlog.iter().map(|it| u64::from(it.destinations) * u64::from(it.each)).sum()
    }

    /// What is sent to a group, waiting and arriving.
    pub(crate) fn offered(&self, group: u8) -> u64 {
        let of = |no: u32| self.destinations[no as usize].group == group;
        let waiting: u64 = self
            .backlog
            .iter()
            .map(|it| {
                u64::from(it.each)
                    * (it.first..it.first + it.destinations).filter(|no| of(*no)).count() as u64
            })
            .sum();
        waiting + self.arrivals.iter().filter(|it| of(it.destination)).count() as u64
    }
}

fn greeting(first: u32, destinations: u32, n: u32) -> Arrival {
    let at = u64::from(n) * 2_000 / u64::from(destinations);
    Arrival { at, destination: first + n, class: 1, not_before: 0 }
}

/// Chance from a seed.
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(splitmix64(seed))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        splitmix64(self.0)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    /// A waiting time of mean 1.
    fn exponential(&mut self) -> f64 {
        let share = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        -(1.0 - share).ln()
    }
}
