//! Quotas of tenants, where deliveries are accepted.

use duehook::engine::TenantQuotas;
use duehook::engine::command::{Configuration, StateVerb};
use duehook::model::Quota;

use super::*;

/// A paused destination `d0` of tenant `acme`, and `other` of tenant `b`.
fn scene(per_second: u32, max_waiting: u64, max_deliveries: u64) -> Scene {
    let mut scene = Scene::new(Setting::default(), |_| soon(200, None));
    let settings = Box::new(Destination { tenant: name("b"), ..settings(8, Millis(15_000)) });
    let (expect, other) = (Expect::Anything, name("other"));
    scene
        .command(Command::PutDestination { name: other.clone(), settings, keep_secrets: true, expect })
        .expect("a new name");
    for name in [destination(0), other] {
        let (verb, reason) = (StateVerb::Pause, String::new());
        scene.command(Command::SetState { name, verb, reason }).expect("it is there");
    }
    scene.quota(per_second, max_waiting, max_deliveries);
    scene
}

impl Scene {
    /// Tenant `acme` has this quota from now on.
    fn quota(&mut self, per_second: u32, max_waiting: u64, max_deliveries: u64) {
        let named = BTreeMap::from([(name("acme"), Quota { per_second, max_waiting })]);
        let tenant_quotas = TenantQuotas { default: Quota::default(), named };
        let limits = Limits { tenant_quotas, max_deliveries, ..self.limits() };
        let it = Configuration {
            limits,
            min_free_disk: 0,
            watched: 0,
            host: String::new(),
            changes: String::new(),
        };
        self.command(Command::Configure(Box::new(it))).expect("good settings");
    }

    /// One batch; what becomes of each item in a letter: taken, duplicate, rate, full, server.
    fn batch(&mut self, items: &[(&str, Option<&str>)]) -> String {
        let new = |(to, key_text): &(&str, Option<&str>)| NewDelivery {
            destination: name(to),
            key: key_text.map(key),
            ..plain(0)
        };
        let batch = items.iter().map(new).collect();
        let results = self.step(Batch { accepts: vec![batch], ..Batch::default() }).accepts.remove(0);
        let letter = |result: &Result<Accepted, Rejected>| match result {
            Ok(it) if it.duplicate => 'd',
            Ok(_) => 't',
            Err(Rejected::TenantRate { .. }) => 'r',
            Err(Rejected::TenantFull { .. }) => 'f',
            Err(Rejected::QueueFull { .. }) => 's',
            Err(other) => panic!("{other}"),
        };
        results.iter().map(letter).collect()
    }
}

const D0: (&str, Option<&str>) = ("d0", None);
const OTHER: (&str, Option<&str>) = ("other", None);

#[test]
fn so_many_a_second_item_by_item_and_repeats_are_free() {
    let mut scene = scene(2, 0, 1_000);
    let k = ("d0", Some("k"));
    assert_eq!(scene.batch(&[k, D0, D0, OTHER, k]), "ttrtd");
    assert_eq!(scene.batch(&[k, k, k]), "ddd", "a repeat is answered before the quota is looked at");
    let refused = scene.post(0, |_| {}).expect_err("no more");
    let Rejected::TenantRate { retry_after, per_second: 2, .. } = refused else { panic!("{refused}") };
    assert_eq!(retry_after, Millis(500));
    scene.run_to(scene.mono + 499);
    assert_eq!(scene.batch(&[D0]), "r");
    scene.run_to(scene.mono + 1);
    assert_eq!(scene.batch(&[D0, D0]), "tr");
    scene.run_to(scene.mono + HOUR);
    assert_eq!(scene.batch(&[D0, D0, D0]), "ttr", "nothing is saved up");
}

#[test]
fn what_is_refused_for_another_reason_costs_nothing_of_the_quota() {
    let mut scene = scene(1, 0, 4);
    assert_eq!(scene.batch(&[D0, D0, D0, D0, D0]), "sssss", "the request does not fit");
    assert_eq!(scene.batch(&[D0, D0]), "tr");
}

#[test]
fn so_many_may_wait_of_each_tenant() {
    let mut scene = scene(0, 3, 1_000);
    assert_eq!(scene.batch(&[D0, D0, OTHER, D0, D0]), "ttttf");
    assert_eq!(scene.batch(&[D0, OTHER]), "ft");
    scene.restart(SECOND);
    scene.quota(0, 3, 1_000);
    scene.run_to(scene.mono + SECOND);
    assert_eq!(scene.batch(&[D0]), "f", "what waits is counted again after a start");
    let ended = scene.view_all()[0];
    scene.command(Command::Cancel { id: ended }).expect("it waits");
    assert_eq!(scene.batch(&[D0, D0]), "tf");
    // What is in flight does not wait.
    let (verb, reason) = (StateVerb::Resume, String::new());
    scene.command(Command::SetState { name: destination(0), verb, reason }).expect("it is there");
    scene.run_to(scene.mono + MINUTE);
    assert_eq!(scene.batch(&[D0, D0, D0, D0]), "tttf");
}

impl Scene {
    /// Ids of what waits at `d0`.
    fn view_all(&self) -> Vec<DeliveryId> {
        let file = self.engine().reader().snapshot().expect("readable");
        let filter = duehook::store::Filter {
            destinations: vec![destination(0)],
            states: vec![duehook::store::Shown::Ready],
            ..Default::default()
        };
        let order = duehook::store::Order::OldestCreated;
        let page = file.list(&filter, order, None, 100, self.now().wall, &|| false).expect("readable");
        page.items.iter().map(|view| view.delivery.id).collect()
    }
}

/// No tenant alone fills the server unless it is told that it may.
#[test]
fn half_of_what_the_server_holds_unless_it_is_set() {
    let mut scene = scene(0, 0, 10);
    assert_eq!(scene.batch(&[D0; 6]), "tttttf");
    assert_eq!(scene.batch(&[OTHER; 5]), "ttttt");
    assert_eq!(scene.batch(&[OTHER]), "s", "now the server is full");
    let mut alone = self::scene(0, 10, 10);
    assert_eq!(alone.batch(&[D0; 10]), "tttttttttt");
}
