//! Other settings while the engine runs: all of them, in one step, or none.

use duehook::engine::command::{Configuration, StateVerb};
use duehook::model::Action;
use duehook::store::AuditFilter;

use super::*;

impl Scene {
    fn reload(&mut self, change: impl FnOnce(&mut Limits)) -> Result<Done, CommandError> {
        let mut limits = self.limits();
        change(&mut limits);
        let changes = "changed send.slots".to_owned();
        let it = Configuration { limits, min_free_disk: 0, watched: 0, host: String::new(), changes };
        self.order("token:ops", Command::Configure(Box::new(it)))
    }

    fn out(&self) -> u32 {
        self.engine().slots().1
    }

    fn sound(&self) {
        self.engine().audit(self.now()).unwrap_or_else(|broken| panic!("{broken}"));
    }
}

/// Nothing comes back: each request takes its slot for good, as far as the scene goes.
fn forever(_: &Sent) -> Reply {
    Some((answered(200, None), 14 * SECOND))
}

#[test]
fn fewer_slots_and_more_of_them_while_requests_are_out() {
    let setting = || Setting { destinations: 20, concurrency: 1_000, slots: 100, ..Setting::default() };
    let mut scene = Scene::new(setting(), forever);
    for _ in 0..20 {
        for place in 0..20 {
            scene.deliver(place);
        }
    }
    scene.run_to(SECOND);
    let before = scene.out();
    assert!(before > 10, "{before}");
    // Below what is out, and below what has pools at all.
    for slots in [10, 3, 100, 10, 400] {
        assert_eq!(scene.reload(|limits| limits.slots = slots), Ok(Done::Configured));
        let shrunk = scene.out();
        scene.run_to(scene.mono + MINUTE);
        scene.sound();
        assert!(scene.out() <= slots.max(1), "{} of {slots}, {shrunk} were out", scene.out());
    }
    scene.run_to(scene.mono + HOUR);
    assert_eq!((scene.out(), scene.sent.len()), (0, 400), "all of it is sent, once");
    scene.sound();
}

#[test]
fn a_policy_that_a_destination_needs_cannot_go() {
    let mut scene = Scene::new(Setting { destinations: 2, ..Setting::default() }, forever);
    let slow = |limits: &mut Limits| {
        let policy = Policy { schedule: vec![Millis(HOUR)], ..Policy::default() };
        limits.policies.insert(name("slow"), policy);
    };
    scene.reload(slow).expect("another policy");
    let settings = Box::new(Destination { policy: name("slow"), ..settings(8, Millis(15_000)) });
    let (it, expect) = (destination(1), Expect::Anything);
    scene
        .command(Command::PutDestination { name: it.clone(), settings, keep_secrets: true, expect })
        .expect("it is there");
    let entries = |scene: &Scene| {
        let filter = AuditFilter { actions: vec![Action::ConfigReload], ..AuditFilter::default() };
        let file = scene.engine().reader().snapshot().expect("readable");
        file.audit(&filter, None, 100, &|| false).expect("readable").items
    };
    assert_eq!(entries(&scene).len(), 1);
    let needed = CommandError::PolicyNeeded { policy: name("slow"), destination: destination(1) };
    assert_eq!(scene.reload(|limits| limits.slots = 1), Err(needed));
    assert_eq!(scene.engine().slots().0, 64, "nothing of it has changed");
    assert_eq!(entries(&scene).len(), 1, "nor is there an entry");
    scene.command(Command::DeleteDestination { name: it, expect }).expect("nothing waits");
    assert_eq!(scene.reload(|limits| limits.slots = 70), Ok(Done::Configured));
    assert_eq!(scene.engine().slots().0, 70);
    let newest = entries(&scene).remove(0);
    assert_eq!((&*newest.by, &*newest.detail), ("token:ops", "changed send.slots"));
}

#[test]
fn classes_come_and_go_and_the_ninth_name_is_refused() {
    let mut scene = Scene::new(Setting::default(), forever);
    let class = |n: u32| ClassSettings::of(name(&format!("c{n}")));
    let into = |scene: &mut Scene, class: &str| scene.post(0, |new| new.class = Some(name(class))).map(drop);
    assert_eq!(into(&mut scene, "c0"), Err(Rejected::ClassUnknown));
    scene.reload(|limits| limits.classes.extend((0..5).map(class))).expect("eight in all");
    assert_eq!(into(&mut scene, "c0"), Ok(()));
    let full = CommandError::ClassesFull { class: name("c9") };
    assert_eq!(scene.reload(|limits| limits.classes.push(class(9))), Err(full));
    assert_eq!(into(&mut scene, "c4"), Ok(()), "nothing of it has changed");
    scene.reload(|_| {}).expect("the first three");
    assert_eq!(into(&mut scene, "c0"), Err(Rejected::ClassUnknown));
    scene.run_to(MINUTE);
    assert_eq!(scene.sent.len(), 2, "what was taken is sent");
    scene.restart(SECOND);
    scene.reload(|limits| limits.classes.push(class(3))).expect("its number is its own");
    assert_eq!(into(&mut scene, "c3"), Ok(()));
    scene.sound();
}

/// The key decides first: what was taken under it stays taken, whatever its class has become.
#[test]
fn a_repeat_of_a_class_that_is_gone_is_a_duplicate() {
    let mut scene = Scene::new(Setting::default(), forever);
    let extra = || ClassSettings::of(name("extra"));
    let post = |scene: &mut Scene, k: &str| {
        let posted = scene.post(0, |new| (new.class, new.key) = (Some(name("extra")), Some(key(k))));
        posted.map(|it| it.duplicate)
    };
    scene.reload(|limits| limits.classes.push(extra())).expect("four in all");
    assert_eq!(post(&mut scene, "k"), Ok(false));
    scene.reload(|_| {}).expect("the first three");
    assert_eq!(post(&mut scene, "k"), Ok(true));
    assert_eq!(post(&mut scene, "other"), Err(Rejected::ClassUnknown));
}

/// Bodies that were kept go when they are not to be kept any longer, and the other way round.
#[test]
fn retention_takes_effect_for_what_has_ended_before() {
    let mut scene = Scene::new(Setting::default(), |_| soon(200, None));
    scene.reload(|limits| limits.retention.delivered_payload = Millis(24 * HOUR)).expect("good");
    let kept = scene.deliver(0);
    scene.run_to(HOUR);
    let erased = |scene: &Scene, id| scene.record(id).payload.erased_at.is_some();
    assert!(!erased(&scene, kept));
    scene.reload(|limits| limits.retention.delivered_payload = Millis(0)).expect("good");
    scene.run_to(scene.mono + MINUTE);
    assert!(erased(&scene, kept), "it had ended before");
    let now = scene.deliver(0);
    scene.run_to(scene.mono + MINUTE);
    assert!(erased(&scene, now), "it goes with its end");
    scene.reload(|limits| limits.retention.terminal = Millis(24 * HOUR)).expect("good");
    scene.run_to(26 * HOUR);
    assert!(scene.view(kept).is_none() && scene.view(now).is_none(), "a day is over");
}

#[test]
fn a_restart_of_a_stopped_destination_is_none_of_its_business() {
    let mut scene = Scene::new(Setting { destinations: 2, ..Setting::default() }, forever);
    let (verb, reason) = (StateVerb::Pause, String::new());
    scene.command(Command::SetState { name: destination(0), verb, reason }).expect("it is there");
    let id = scene.deliver(0);
    let weights = BTreeMap::from([(name("acme"), 9)]);
    scene
        .reload(|limits| limits.tenant_weights = TenantWeights { default: 2, named: weights })
        .expect("good");
    scene.run_to(HOUR);
    assert_eq!(scene.times(id), [] as [u64; 0], "it is still paused");
    scene.sound();
}
