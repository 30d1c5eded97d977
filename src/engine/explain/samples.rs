//! A delivery and a destination as the tests of explanations and documents begin with.

use std::sync::Arc;

use crate::delivery::{Delivery, Lease, Payload, Source, State};
use crate::model::destination::StateNote;
use crate::model::{
    ClassNo, DeliveryId, DestNo, Destination, DestinationState, Header, HoldScope, Lane, Name, TenantNo,
};
use crate::outcome::NextReason;
use crate::schedule::{BreakerState, GateView};
use crate::store::{DeliveryView, DestinationView};
use crate::time::{Millis, Timestamp};

/// 2026-01-15T12:00:00Z: the now of these tests.
pub(crate) const T0: Timestamp = Timestamp(1_768_478_400_000);

pub(crate) fn name(text: &str) -> Name {
    text.parse().unwrap()
}

/// A new delivery, due at [`T0`], with a life of one hour.
pub(crate) fn delivery() -> DeliveryView {
    let delivery = Delivery {
        id: DeliveryId::new(T0, 1, 1),
        tenant: TenantNo(1),
        destination: DestNo(1),
        class: ClassNo(1),
        region: name("eu"),
        key: Some("shipment:v7".parse().unwrap()),
        created_at: T0,
        not_before: None,
        max_age: Millis(3_600_000),
        expires_at: T0.plus(Millis(3_600_000)),
        max_failures: 0,
        state: waiting(T0, NextReason::New),
        attempts: 0,
        failures: 0,
        throttles: 0,
        interrupted: 0,
        revision: 1,
        cancelling: false,
        first_attempt_at: None,
        payload: Payload { source: Source::Inline { bytes: 812, sha256: [0xab; 32] }, erased_at: None },
        content_type: "application/json".to_owned(),
        headers: vec![Header::new("x-secret", "hunter2").unwrap()],
        labels: Vec::new(),
        log: Vec::new(),
    };
    let (tenant, destination, class) = (name("acme"), name("shop-eu"), name("routine"));
    let delivery = Arc::new(delivery);
    DeliveryView { delivery, lease: None, tenant, destination, class, held_until: None }
}

/// The record of a view, to be changed.
pub(crate) fn edit(view: &mut DeliveryView) -> &mut Delivery {
    Arc::make_mut(&mut view.delivery)
}

pub(crate) fn waiting(due: Timestamp, reason: NextReason) -> State {
    State::Waiting { due, lane: Lane(2), reason }
}

/// The lease of attempt 3, claimed at [`T0`].
pub(crate) fn lease() -> Lease {
    Lease {
        id: DeliveryId::new(T0, 1, 1),
        attempt: 3,
        nonce: 9,
        claimed_at: T0,
        until: T0.plus(Millis(25_000)),
        destination: DestNo(1),
        lane: Lane(3),
        due: T0,
        fresh: false,
    }
}

/// An active destination with one secret header.
pub(crate) fn destination() -> DestinationView {
    DestinationView {
        no: DestNo(1),
        name: name("shop-eu"),
        settings: Destination {
            tenant: name("acme"),
            url: "https://shop.example.com/hook?token=hidden".parse().unwrap(),
            concurrency_max: 8,
            adaptive: false,
            rate: None,
            policy: name("default"),
            timeout: Millis(15_000),
            connect_timeout: Millis(5_000),
            headers: vec![Header::new("authorization", "hunter2").unwrap()],
            secrets: vec![],
            tls: None,
            allow_cidrs: vec!["10.0.0.0/8".parse().unwrap()],
            hold_scope: HoldScope::Destination,
        },
        note: StateNote {
            state: DestinationState::Active,
            reason: String::new(),
            since: T0,
            by: "operator".to_owned(),
        },
        created_at: T0,
        revision: 4,
    }
}

/// An open gate.
pub(crate) fn gate() -> GateView {
    GateView {
        in_flight: 2,
        limit: 8,
        waiting: 5,
        oldest_due_at: Some(T0),
        hold: None,
        last_success_at: None,
        failing_since: None,
        failure_streak: 0,
        breaker: BreakerState::Closed,
        breaker_until: None,
        paced_until: None,
        learnt_rate: None,
        asked: None,
        recovery: None,
    }
}
