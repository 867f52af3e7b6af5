//! The side of a mirrored chunk that answers, by a router's word or without one.

use super::Routing;
use crate::group_state::tests::{FAST, SLOW, group};
use crate::map::overlay::Side;
use thermocline_policy::placement::{ROUTING_PERIOD, Route};
use thermocline_units::Nanos;

const NOW: Nanos = Nanos(7);

#[test]
fn a_share_of_requests_goes_to_the_slower_side_whichever_that_is() {
    let (mut group, mut routing) = (group(), Routing::default());
    routing.begin(NOW, true, &mut group.pools);
    routing.set(Route { reads: 250_000, writes: 1_000_000 });
    for (sides, slower) in [([SLOW, FAST], Side::Base), ([FAST, SLOW], Side::Above)] {
        let mut count = |write| {
            let mut choose = || routing.choose(&group, NOW, sides, write);
            (0..8).filter(|_| choose() == slower).count()
        };
        assert_eq!((count(false), count(true)), (2, 8), "{sides:?}");
    }
}

#[test]
fn without_a_router_a_request_goes_where_it_waits_least() {
    let (mut group, mut routing) = (group(), Routing::default());
    routing.begin(NOW, false, &mut group.pools);
    group.pools[FAST].note_latency(NOW, false, Nanos(50_000_000), 1);
    group.pools[SLOW].note_latency(NOW, false, Nanos(8_000_000), 1);
    assert_eq!(routing.choose(&group, NOW, [SLOW, FAST], false), Side::Base);
    group.pools[SLOW].in_flight = 40;
    assert_eq!(routing.choose(&group, NOW, [SLOW, FAST], false), Side::Above);
}

#[test]
fn a_router_is_asked_once_a_period_and_nobody_is_where_there_is_none() {
    let (mut group, mut routing) = (group(), Routing::default());
    routing.begin(NOW, false, &mut group.pools);
    assert_eq!((routing.next(), routing.loads(Nanos(u64::MAX), &mut group.pools)), (None, None));
    routing.begin(NOW, true, &mut group.pools);
    let due = Nanos(NOW.0 + ROUTING_PERIOD.0);
    assert_eq!(routing.next(), Some(due));
    assert!(routing.loads(Nanos(due.0 - 1), &mut group.pools).is_none());
    group.pools[SLOW].counters.reads += 3;
    let loads = routing.loads(due, &mut group.pools).expect("it is time");
    assert_eq!(loads.iter().map(|load| load.reads).collect::<Vec<_>>(), [0, 3, 0]);
    assert!(routing.loads(due, &mut group.pools).is_none());
    let later = Nanos(due.0 + ROUTING_PERIOD.0);
    let loads = routing.loads(later, &mut group.pools).expect("it is time again");
    assert!(loads.iter().all(|load| load.reads == 0), "what was told is not told again");
}
