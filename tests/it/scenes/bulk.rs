//! Bulk jobs in virtual time: whatever happens between two pages, every delivery that matched has
//! its turn once, and nothing else has one.

use duehook::engine::command::{ClaimsOrder, StateVerb};
use duehook::engine::jobs::{JobOrder, JobPage, MAX_RUNNING, NewJob, page_size, pause};
use duehook::model::{BulkAction, JobId, JobState};
use duehook::store::{Between, Filter, Job, MAX_ENDED_JOBS, Shown, check};

use super::*;

fn at(place: u32) -> Filter {
    Filter { destinations: vec![destination(place)], ..Filter::default() }
}

fn ended_as(outcomes: &[Ending]) -> Filter {
    Filter { outcomes: outcomes.to_vec(), ..Filter::default() }
}

fn order(scene: &mut Scene, order: JobOrder) -> Result<Job, CommandError> {
    let done = scene.command(Command::Job(order))?;
    let Done::Job(job) = done else { panic!("{done:?}") };
    Ok(*job)
}

fn try_begin(
    scene: &mut Scene,
    action: BulkAction,
    filter: Filter,
    rate: Option<u32>,
) -> Result<JobId, CommandError> {
    let new = NewJob { action, filter, dry_run: false, rate_per_second: rate, by: "operator".into() };
    order(scene, JobOrder::Start(Box::new(new))).map(|job| job.id)
}

fn begin(scene: &mut Scene, action: BulkAction, filter: Filter) -> JobId {
    try_begin(scene, action, filter, None).expect("it begins")
}

fn job(scene: &Scene, id: JobId) -> Job {
    scene.engine().reader().snapshot().expect("readable").job(id).expect("readable").expect("it is there")
}

/// The next page, as the driver finds it.
fn found(scene: &Scene, id: JobId) -> JobPage {
    let snapshot = scene.engine().reader().snapshot().expect("readable");
    let job = snapshot.job(id).expect("readable").expect("it is there");
    let from = job.come;
    if job.removes.is_some() {
        return JobPage { id, from, ids: vec![], come: from, end: false };
    }
    let turns = snapshot.find(&job, from, page_size(&job), &|| false).expect("readable");
    JobPage { id, from, ids: turns.ids, come: turns.come, end: turns.end }
}

fn turn(scene: &mut Scene, page: JobPage) -> Job {
    order(scene, JobOrder::Turn(page)).expect("it is known")
}

/// Page after page to the job's end, at its pace.
fn finish(scene: &mut Scene, id: JobId) -> Job {
    loop {
        let page = found(scene, id);
        let (begun, ids, before) = (scene.mono, page.ids.len(), job(scene, id).matched);
        let job = turn(scene, page);
        if job.state != JobState::Running {
            return job;
        }
        scene.run_to(begun + pause(&job, ids, before).0);
    }
}

fn counts(job: &Job) -> (u64, u64, u64) {
    (job.matched, job.changed, job.skipped)
}

fn whole(scene: &Scene) {
    let checked = check::check(&scene.engine().reader().snapshot().expect("readable")).expect("readable");
    assert_eq!(checked.problems, Vec::<String>::new());
}

/// Deliveries that are not due for an hour.
fn delayed(scene: &mut Scene, place: u32, n: usize) -> Vec<DeliveryId> {
    let due = Timestamp(scene.now().wall.0 + HOUR);
    let new = || NewDelivery { not_before: Some(due), ..plain(place) };
    let step = scene.step(Batch { accepts: vec![(0..n).map(|_| new()).collect()], ..Batch::default() });
    step.accepts[0].iter().map(|it| it.as_ref().expect("taken").delivery.delivery.id).collect()
}

/// A page that is handed over again, or was found before a crash, changes nothing: what stands in the
/// file says how far the job has come.
#[test]
fn a_crash_between_pages_misses_nothing_and_repeats_nothing() {
    let mut scene = Scene::new(Setting { destinations: 2, ..Setting::default() }, |_| None);
    scene.command(pause_of(0)).expect("it is there");
    let (ids, others) = (delayed(&mut scene, 0, 600), delayed(&mut scene, 1, 50));
    let id = begin(&mut scene, BulkAction::Retry, at(0));
    let first = found(&scene, id);
    assert_eq!(first.ids.len(), 256);
    let after = turn(&mut scene, first.clone());
    assert_eq!((after.changed, after.come), (256, first.come));
    assert_eq!(turn(&mut scene, first.clone()), after, "its turn is over");
    let second = found(&scene, id);
    scene.restart(SECOND);
    assert_eq!(job(&scene, id), after, "it is where it was");
    assert_eq!(turn(&mut scene, first), after);
    turn(&mut scene, second.clone());
    scene.restart(SECOND);
    assert_eq!(turn(&mut scene, second).changed, 512);
    let done = finish(&mut scene, id);
    assert_eq!((done.state, counts(&done)), (JobState::Done, (600, 600, 0)));
    assert!(done.finished_at.is_some());
    for id in ids {
        assert_eq!((scene.due(id) < HOUR, scene.record(id).revision), (true, 1), "once");
    }
    assert!(others.into_iter().all(|id| scene.record(id).revision == 0));
    whole(&scene);
}

/// Ids that were made by a clock an hour fast are those of deliveries like any other.
#[test]
fn a_job_is_after_what_a_fast_clock_made() {
    let mut scene = Scene::new(Setting::default(), |_| None);
    scene.wall_ahead = HOUR;
    let old = delayed(&mut scene, 0, 3);
    scene.wall_ahead = 0;
    scene.run_to(SECOND);
    scene.command(pause_of(0)).expect("it is there");
    scene.restart(SECOND);
    let new = delayed(&mut scene, 0, 1)[0];
    assert!(old.iter().all(|id| *id < new));
    let id = begin(&mut scene, BulkAction::Cancel, at(0));
    let job = finish(&mut scene, id);
    assert_eq!(counts(&job), (4, 4, 0));
    let later = delayed(&mut scene, 0, 1)[0];
    assert!(id.is_after(new) && !id.is_after(later));
}

fn pause_of(place: u32) -> Command {
    Command::SetState { name: destination(place), verb: StateVerb::Pause, reason: String::new() }
}

/// Found is not taken: each is looked at again when it is its turn.
#[test]
fn what_has_changed_meanwhile_is_skipped() {
    let mut scene = Scene::new(Setting::default(), |_| None);
    let ids = delayed(&mut scene, 0, 10);
    let filter = Filter { states: vec![Shown::Delayed], ..at(0) };
    let id = begin(&mut scene, BulkAction::Cancel, filter);
    let page = found(&scene, id);
    scene.command(Command::Cancel { id: ids[0] }).expect("it waits");
    scene.command(Command::Retry { id: ids[1] }).expect("it waits");
    assert!(scene.view(ids[1]).expect("it is there").lease.is_some());
    scene.command(Command::Erase { id: ids[2] }).expect("never refused");
    let done = turn(&mut scene, page);
    assert_eq!((done.state, counts(&done)), (JobState::Done, (10, 7, 3)));
    assert_eq!(scene.ending(ids[2]), Some(Ending::PayloadGone));
    assert!(!scene.record(ids[1]).cancelling, "it was not delayed any more");
    whole(&scene);
}

/// What is retried and ends again, and what comes and ends while a job runs, is none of it.
#[test]
fn a_job_takes_what_matched_when_it_began() {
    let mut scene = Scene::new(Setting::default(), |_| soon(404, None));
    let old: Vec<DeliveryId> = (0..6).map(|_| scene.deliver(0)).collect();
    scene.run_to(SECOND);
    let waits = delayed(&mut scene, 0, 1)[0];
    let id =
        try_begin(&mut scene, BulkAction::Retry, ended_as(&[Ending::Rejected]), Some(1)).expect("begins");
    let mut new = Vec::new();
    loop {
        let page = found(&scene, id);
        let job = turn(&mut scene, page);
        if job.state != JobState::Running {
            assert_eq!(counts(&job), (6, 6, 0));
            break;
        }
        new.push(scene.deliver(0));
        if scene.ending(waits).is_none() {
            scene.command(Command::Retry { id: waits }).expect("it waits");
        }
        scene.run_to(scene.mono + SECOND);
    }
    scene.run_to(scene.mono + MINUTE);
    assert!(old.iter().all(|id| scene.times(*id).len() == 2));
    assert!(new.len() >= 6 && new.iter().all(|id| scene.times(*id).len() == 1));
    assert_eq!((scene.ending(waits), scene.times(waits).len()), (Some(Ending::Rejected), 1));
}

/// What ends between two pages is still the job's, unless it matches by its end alone.
#[test]
fn what_ends_before_its_turn_is_erased_all_the_same() {
    let check = |filter: Filter, want: (u64, u64, u64), erased: [bool; 3]| {
        let mut scene = Scene::new(Setting::default(), |_| None);
        let ids = delayed(&mut scene, 0, 3);
        scene.command(Command::Cancel { id: ids[0] }).expect("it waits");
        let id = try_begin(&mut scene, BulkAction::Erase, filter.clone(), Some(1)).expect("it begins");
        scene.command(Command::Cancel { id: ids[1] }).expect("it waits");
        let page = found(&scene, id);
        turn(&mut scene, page);
        // This one ends between two pages, after the last look.
        scene.command(Command::Cancel { id: ids[2] }).expect("it waits");
        assert_eq!(counts(&finish(&mut scene, id)), want, "{filter:?}");
        let gone = [0, 1, 2].map(|n| scene.record(ids[n]).is_erased());
        assert_eq!(gone, erased, "{filter:?}");
        whole(&scene);
    };
    let finished = Between { after: Some(Timestamp(1)), before: None };
    let once = |change: fn(&mut Filter)| {
        let mut filter = at(0);
        change(&mut filter);
        filter
    };
    check(at(0), (3, 3, 0), [true; 3]);
    check(once(|it| it.states = vec![Shown::Terminal]), (1, 1, 0), [true, false, false]);
    check(once(|it| it.outcomes = vec![Ending::Cancelled]), (1, 1, 0), [true, false, false]);
    check(Filter { finished, ..at(0) }, (1, 1, 0), [true, false, false]);
}

#[test]
fn what_was_delivered_is_retried_only_by_name_and_what_has_ended_is_not_cancelled() {
    let keep = |new: &mut NewDelivery| new.key = Some(key("k"));
    let mut scene = Scene::new(Setting::default(), |sent| soon(if sent.nth == 1 { 200 } else { 404 }, None));
    let delivered = scene.post(0, keep).expect("taken").delivery.delivery.id;
    scene.run_to(SECOND);
    let rejected = scene.deliver(0);
    scene.run_to(2 * SECOND);
    let check = |scene: &mut Scene, action, filter, want| {
        let id = begin(scene, action, filter);
        let job = finish(scene, id);
        assert_eq!(counts(&job), want, "{job:?}");
    };
    check(&mut scene, BulkAction::Cancel, at(0), (0, 0, 0));
    check(&mut scene, BulkAction::Retry, at(0), (1, 1, 0));
    scene.run_to(3 * SECOND);
    assert_eq!((scene.times(rejected).len(), scene.times(delivered).len()), (2, 1));
    // Its body went when it was delivered: it is found, and cannot be retried.
    check(&mut scene, BulkAction::Retry, ended_as(&[Ending::Delivered]), (1, 0, 1));
    check(&mut scene, BulkAction::Erase, at(0), (2, 2, 0));
    check(&mut scene, BulkAction::Erase, at(0), (2, 0, 2));
    check(&mut scene, BulkAction::Retry, at(0), (1, 0, 1));
    whole(&scene);
}

/// C180: dead for long, and its budget used up: the retry of a job is a new round as any other.
#[test]
fn c180_what_is_retried_is_sent_at_least_once() {
    let policy = Policy { max_failures: 2, max_age: Millis(HOUR), ..Policy::default() };
    let mut scene = Scene::new(Setting { policy, ..Setting::default() }, |sent| {
        soon(if sent.attempt < 3 { 500 } else { 200 }, None)
    });
    let id = scene.deliver(0);
    scene.run_to(HOUR);
    assert_eq!(scene.ending(id), Some(Ending::Exhausted));
    scene.run_to(3 * HOUR);
    let job = begin(&mut scene, BulkAction::Retry, ended_as(&[Ending::Exhausted]));
    assert_eq!(counts(&finish(&mut scene, job)), (1, 1, 0));
    scene.run_to(4 * HOUR);
    assert_eq!((scene.ending(id), scene.times(id).len()), (Some(Ending::Delivered), 3));
}

#[test]
fn a_paced_job_keeps_to_its_rate_over_a_restart() {
    let mut scene = Scene::new(Setting::default(), |_| None);
    delayed(&mut scene, 0, 60);
    let id = try_begin(&mut scene, BulkAction::Cancel, at(0), Some(10)).expect("it begins");
    let mut changed = Vec::new();
    loop {
        let page = found(&scene, id);
        let (begun, ids) = (scene.mono, page.ids.len());
        let job = turn(&mut scene, page);
        changed.push((begun, job.changed));
        if job.state != JobState::Running {
            break;
        }
        scene.run_to(begun + pause(&job, ids, 0).0);
        if changed.len() == 7 {
            scene.restart(0);
        }
    }
    assert_eq!(changed.last().expect("pages").1, 60);
    for (time, before) in &changed {
        let within = changed.iter().filter(|(other, _)| other - time.min(other) < SECOND).map(|(_, n)| *n);
        let most = within.max().unwrap_or(0) - before;
        assert!(most <= 10, "{most} in the second after {time}");
    }
    assert!(changed.last().expect("pages").0 >= 5 * SECOND);
}

#[test]
fn a_stopped_job_does_nothing_more() {
    let mut scene = Scene::new(Setting::default(), |_| None);
    let ids = delayed(&mut scene, 0, 300);
    let id = begin(&mut scene, BulkAction::Erase, at(0));
    let page = found(&scene, id);
    turn(&mut scene, page);
    let late = found(&scene, id);
    let stopped = order(&mut scene, JobOrder::Stop { id }).expect("it runs");
    assert_eq!((stopped.state, stopped.changed), (JobState::Stopped, 256));
    assert_eq!(turn(&mut scene, late), stopped);
    scene.mono += SECOND;
    assert_eq!(order(&mut scene, JobOrder::Stop { id }).expect("it is known"), stopped, "once");
    scene.restart(SECOND);
    assert_eq!(job(&scene, id), stopped);
    assert_eq!(ids.iter().filter(|id| scene.ending(**id).is_none()).count(), 44);
    assert_eq!(order(&mut scene, JobOrder::Stop { id: JobId(7) }), Err(CommandError::JobUnknown));
}

#[test]
fn one_of_a_kind_at_once_and_the_last_ones_are_kept() {
    let mut scene = Scene::new(Setting::default(), |_| None);
    let id = begin(&mut scene, BulkAction::Cancel, at(0));
    let again = try_begin(&mut scene, BulkAction::Cancel, at(0), Some(9));
    assert_eq!(again, Err(CommandError::JobRunning { id }), "another pace is no other job");
    for n in 1..u32::try_from(MAX_RUNNING).expect("few") {
        begin(&mut scene, BulkAction::Cancel, at(n));
    }
    assert_eq!(try_begin(&mut scene, BulkAction::Erase, at(0), None), Err(CommandError::TooManyJobs));
    finish(&mut scene, id);
    let mut last = begin(&mut scene, BulkAction::Cancel, at(0));
    for _ in 0..MAX_ENDED_JOBS + 5 {
        finish(&mut scene, last);
        last = begin(&mut scene, BulkAction::Cancel, at(0));
    }
    let jobs = scene.engine().reader().snapshot().expect("readable").jobs().expect("readable");
    let running = jobs.iter().filter(|job| job.state == JobState::Running).count();
    assert_eq!((running, jobs.len()), (MAX_RUNNING, MAX_RUNNING + MAX_ENDED_JOBS));
    assert!(jobs.iter().all(|job| job.id != id), "the oldest that has ended went first");
    assert_eq!(jobs.last().map(|job| job.id), Some(last));
}

#[test]
fn a_dry_run_counts_and_changes_nothing() {
    let mut scene = Scene::new(Setting::default(), |_| None);
    let ids = delayed(&mut scene, 0, 300);
    let new = NewJob {
        action: BulkAction::Cancel,
        filter: at(0),
        dry_run: true,
        rate_per_second: None,
        by: "operator".into(),
    };
    let id = order(&mut scene, JobOrder::Start(Box::new(new))).expect("it begins").id;
    begin(&mut scene, BulkAction::Cancel, at(0));
    let done = finish(&mut scene, id);
    assert_eq!((done.state, counts(&done)), (JobState::Done, (300, 0, 0)));
    assert!(ids.iter().all(|id| scene.record(*id).revision == 0));
}

/// What it has is exported, and must not change under that.
#[test]
fn a_drained_server_has_no_turns() {
    let mut scene = Scene::new(Setting::default(), |_| None);
    delayed(&mut scene, 0, 3);
    let id = begin(&mut scene, BulkAction::Cancel, at(0));
    let claims = |order| Batch { claims: vec![order], ..Batch::default() };
    scene.step(claims(ClaimsOrder::Drain.into()));
    let (before, page) = (job(&scene, id), found(&scene, id));
    assert_eq!(turn(&mut scene, page.clone()), before);
    scene.step(claims(ClaimsOrder::Start { fence: Some(1) }.into()));
    assert_eq!(counts(&turn(&mut scene, page)), (3, 3, 0));
}

/// It takes nothing new, what waits is cancelled, what is in flight ends with its attempt, and then
/// it is gone; a crash in between changes nothing about that.
#[test]
fn a_destination_is_removed_with_its_work() {
    let check = |crash: bool, in_flight: Ending| {
        let mut scene =
            Scene::new(Setting { destinations: 2, ..Setting::default() }, |sent| match sent.place {
                0 => Some((answered(200, None), 10 * SECOND)),
                _ => None,
            });
        let out = scene.deliver(0);
        let waits = delayed(&mut scene, 0, 600);
        let other = delayed(&mut scene, 1, 5);
        let name = destination(0);
        let remove =
            || JobOrder::Remove { name: name.clone(), expect: Expect::Anything, by: "token:a".into() };
        let refused = JobOrder::Remove {
            name: name.clone(),
            expect: Expect::Version(DestNo(0), 9),
            by: "operator".into(),
        };
        assert_eq!(order(&mut scene, refused), Err(CommandError::RevisionMismatch));
        let id = order(&mut scene, remove()).expect("it begins").id;
        assert_eq!(order(&mut scene, remove()), Err(CommandError::JobRunning { id }));
        assert!(matches!(scene.post(0, |_| {}), Err(Rejected::DestinationDisabled { .. })));
        for _ in 0..4 {
            let page = found(&scene, id);
            assert_eq!(turn(&mut scene, page).state, JobState::Running, "one is in flight");
        }
        assert!(scene.record(out).cancelling);
        if crash {
            scene.restart(SECOND);
        }
        let done = finish(&mut scene, id);
        assert_eq!(done.state, JobState::Done);
        assert!(done.changed >= 601 && done.skipped == 0, "{done:?}");
        assert_eq!(scene.ending(out), Some(in_flight));
        assert!(waits.iter().all(|id| scene.ending(*id) == Some(Ending::Cancelled)));
        assert!(other.iter().all(|id| scene.ending(*id).is_none()));
        let again = Command::DeleteDestination { name: name.clone(), expect: Expect::Anything };
        assert_eq!(scene.command(again), Err(CommandError::DestinationUnknown));
        assert_eq!(order(&mut scene, remove()), Err(CommandError::DestinationUnknown));
        whole(&scene);
        scene.run_to(2 * HOUR);
        assert_eq!(scene.sent.iter().filter(|sent| sent.place == 0).count(), 1);
    };
    check(false, Ending::Delivered);
    check(true, Ending::Cancelled);
}

/// Producers are told 202 again: what they bring is not the job's.
#[test]
fn enabling_a_destination_stops_its_removal() {
    let mut scene = Scene::new(Setting::default(), |_| None);
    delayed(&mut scene, 0, 300);
    let name = destination(0);
    let remove = JobOrder::Remove { name: name.clone(), expect: Expect::Anything, by: "operator".into() };
    let id = order(&mut scene, remove).expect("it begins").id;
    let page = found(&scene, id);
    turn(&mut scene, page);
    let enable = Command::SetState { name, verb: StateVerb::Enable, reason: String::new() };
    scene.command(enable).expect("it is there");
    let new = delayed(&mut scene, 0, 3);
    let stopped = finish(&mut scene, id);
    assert_eq!((stopped.state, counts(&stopped)), (JobState::Stopped, (256, 256, 0)));
    assert!(new.iter().all(|id| scene.ending(*id).is_none()));
    assert!(scene.post(0, |_| {}).is_ok(), "it is still there");
    whole(&scene);
}
