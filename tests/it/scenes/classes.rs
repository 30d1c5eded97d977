//! Classes that are added, taken away and come back.

use duehook::engine::live::ClassLive;
use duehook::model::MAX_CLASSES;
use duehook::store::StoreError;

use super::*;

fn class(name_of: &str, weight: u32, window: u64) -> ClassSettings {
    ClassSettings { name: name(name_of), weight, window: Millis(window) }
}

impl Scene {
    /// Starts again with these classes beside the built-in ones.
    fn configure(&mut self, more: &[ClassSettings]) {
        self.classes = [&ClassSettings::first(), more].concat();
        self.restart(SECOND);
    }

    fn classes(&mut self) -> Vec<ClassLive> {
        let now = self.now();
        self.engine.as_mut().expect("it is open").live(now).classes.clone()
    }

    fn windows(&mut self) -> Vec<(String, u64)> {
        self.classes().iter().map(|class| (class.name.to_string(), class.window.0)).collect()
    }

    fn post_as(&mut self, class: &str, not_before: Option<u64>) -> Result<Accepted, Rejected> {
        self.post(0, |new| {
            new.class = Some(name(class));
            new.not_before = not_before.map(|at| Timestamp(NOON + at));
        })
    }
}

fn shown(classes: &[(&str, u64)]) -> Vec<(String, u64)> {
    let first = [("urgent", 1_000), ("routine", 10_000), ("bulk", 300_000)];
    first.iter().chain(classes).map(|(name, window)| ((*name).to_owned(), *window)).collect()
}

/// What waits in a class goes on when the class is no longer configured; nothing new gets in,
/// and its number is still its own when it comes back behind another.
#[test]
fn a_class_keeps_its_number_and_its_work() {
    let mut scene = Scene::new(Setting::default(), |_| soon(200, None));
    assert_eq!(scene.windows(), shown(&[]));
    assert!(matches!(scene.post_as("night", None), Err(Rejected::ClassUnknown)));

    scene.configure(&[class("night", 3, 7_000)]);
    assert_eq!(scene.windows(), shown(&[("night", 7_000)]));
    let accepted = scene.post_as("night", Some(HOUR)).expect("it is configured");
    let id = accepted.delivery.delivery.id;

    scene.configure(&[class("day", 1, 2_000)]);
    assert_eq!(scene.windows(), shown(&[("night", 300_000), ("day", 2_000)]));
    assert!(matches!(scene.post_as("night", None), Err(Rejected::ClassUnknown)));
    assert_eq!(scene.view(id).expect("it waits").class, name("night"));
    assert_eq!(scene.classes()[3].delayed, 1);
    scene.run_to(2 * HOUR);
    assert_eq!(scene.ending(id), Some(Ending::Delivered));

    scene.configure(&[class("day", 1, 2_000), class("night", 3, 9_000)]);
    assert_eq!(scene.windows(), shown(&[("night", 9_000), ("day", 2_000)]));
    let again = scene.post_as("night", None).expect("it is back").delivery.delivery;
    assert_eq!(again.class, scene.record(id).class);
}

/// A built-in class can be set otherwise, and its ages are told apart at its window.
#[test]
fn every_configured_window_is_a_bucket() {
    let mut scene = Scene::new(Setting::default(), |_| soon(200, None));
    scene.classes = vec![class("urgent", 4, 700), class("routine", 2, 45_000), class("bulk", 1, 300_000)];
    scene.restart(SECOND);
    let now = scene.now();
    let live = scene.engine.as_mut().expect("it is open").live(now);
    for ages in &live.figures.first_attempt_age {
        for window in [0.7, 45.0, 300.0] {
            assert!(ages.bounds.contains(&window), "{window} is not in {:?}", ages.bounds);
        }
    }
}

/// No number is given twice: more classes than there are numbers are refused, and the file is
/// then as it was, closed as after any run.
#[test]
fn more_classes_ever_than_there_are_numbers() {
    let mut scene = Scene::new(Setting::default(), |_| soon(200, None));
    let more: Vec<ClassSettings> = (3..MAX_CLASSES).map(|n| class(&format!("c{n}"), 1, 1_000)).collect();
    scene.configure(&more);
    assert_eq!(scene.windows().len(), MAX_CLASSES);
    scene.configure(&more[1..]);
    assert!(scene.post_as("c3", None).is_err());

    scene.engine = None;
    scene.classes = [&ClassSettings::first(), &[class("late", 1, 1_000)][..]].concat();
    scene.disk = Disk::of(&scene.disk.image());
    let refused = scene.try_open().err().expect("there is no number left");
    assert!(matches!(&refused, StoreError::ClassesFull { class } if *class == name("late")), "{refused}");
    assert_eq!(refused.exit_code(), 78);
    assert!(refused.to_string().contains("[class.late]"), "{refused}");

    scene.configure(&more);
    assert_eq!(scene.windows().len(), MAX_CLASSES);
    assert!(scene.post_as("c3", None).is_ok());
}

/// SCHEDULER.md 3.6: a class whose first attempts come late has twice its weight. One slot, and
/// more to do than fits: bulk of weight 1 gets its third until it is seen to be late, and then
/// the half.
#[test]
fn a_class_that_is_late_is_pressed() {
    let mut scene =
        Scene::new(Setting { slots: 1, ..Setting::default() }, |_| Some((answered(200, None), 100)));
    scene.classes = vec![class("urgent", 4, 1_000), class("routine", 2, HOUR), class("bulk", 1, 200)];
    scene.restart(SECOND);
    for _ in 0..250 {
        for (class, body) in [("routine", b'r'), ("bulk", b'b')] {
            let taken = scene.post(0, |new| {
                new.class = Some(name(class));
                new.body = NewBody::new(vec![body].into());
            });
            taken.expect("it is configured");
        }
    }
    scene.run_to(MINUTE);
    let bulk = |range: std::ops::Range<usize>| {
        let sent = scene.sent[range].iter().filter(|sent| sent.body == b'b');
        sent.count()
    };
    let (before, after) = (bulk(0..45), bulk(100..200));
    assert!((14..=16).contains(&before), "{before} of 45 while nothing is known");
    assert!((48..=52).contains(&after), "{after} of 100 once it is late");
}

/// C191: what waits for its time is not late, however long ago it was accepted; what is due and is
/// claimed by nobody is as old as that.
#[test]
fn c191_only_what_is_due_grows_old() {
    let mut scene =
        Scene::new(Setting { destinations: 2, ..Setting::default() }, |_| soon(429, Some("3600")));
    for _ in 0..5 {
        scene.deliver(0);
    }
    scene.run_to(30 * MINUTE);
    let now = scene.now();
    let live = scene.engine.as_mut().expect("it is open").live(now);
    let routine = &live.classes[1];
    assert_eq!((routine.oldest_ready_at, routine.ready), (None, 0));
    assert_eq!(routine.delayed + routine.held, 5);
    scene
        .step(Batch { claims: vec![duehook::engine::command::ClaimsOrder::Stop.into()], ..Batch::default() });
    scene.deliver(1);
    scene.run_to(40 * MINUTE);
    let now = scene.now();
    let live = scene.engine.as_mut().expect("it is open").live(now);
    let since = live.classes[1].oldest_ready_at.expect("it is due");
    assert_eq!((scene.after(since), live.classes[1].ready), (30 * MINUTE, 1));
}
