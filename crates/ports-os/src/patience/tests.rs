//! The limits: at which second each of them begins, and for whom neither does.

use super::{Health, Patience};
use thermocline_units::Nanos;

#[test]
fn a_device_is_suspect_from_the_first_limit_on_and_given_up_from_the_second() {
    let patience = Patience::default();
    let since = Nanos::from_secs(100);
    let at = |seconds: u64| patience.judge(Nanos::from_secs(seconds), Some(since));
    assert_eq!([at(100), at(129)], [Health::Well; 2]);
    assert_eq!([at(130), at(399)], [Health::Suspect { since }; 2]);
    assert_eq!([at(400), at(1000)], [Health::GivenUp; 2]);
    assert_eq!(patience.judge(Nanos::from_secs(1000), None), Health::Well, "nothing is under way");
    assert_eq!(at(50), Health::Well, "a clock that is late does no harm");
}
