//! SLAs as words and as numbers.

use super::{Sla, SlaClass};
use thermocline_units::Nanos;

#[test]
fn a_promise_comes_back_from_its_figures_and_nothing_else_does() {
    for class in SlaClass::ALL {
        let sla = Sla { latency: Nanos(1_500_000), class };
        assert_eq!(Sla::from_figures(&sla.figures()), Some(sla));
        assert_eq!(Sla::from_figures(&[sla.figures().as_slice(), &[7]].concat()), Some(sla));
        assert_eq!(SlaClass::named(class.name()), Some(class));
    }
    for wrong in [&[][..], &[5], &[0, 1], &[5, 2], &[5, u64::MAX]] {
        assert_eq!(Sla::from_figures(wrong), None, "{wrong:?}");
    }
    assert_eq!(SlaClass::named("Strict"), None);
}
