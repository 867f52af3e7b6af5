//! Load reports of servers, as a field and as JSON: any bytes are a report within its types or an
//! error, never a panic; and whatever is one, a dispatcher takes or refuses.
#![no_main]

use thermocline_balancer::{BackendSettings, Dispatcher, Settings};
use thermocline_policy::registry::PolicySpec;
use thermocline_proxy::report;
use thermocline_units::{Nanos, SiteId};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let field = std::str::from_utf8(data).ok().and_then(|text| report::from_field(text).ok());
    let reports = [field, report::from_json(data).ok()];
    let rule = PolicySpec::parse("water-fill").unwrap().build_rule().unwrap();
    let mut dispatcher = Dispatcher::new(Nanos(0), Settings::default(), rule, 1);
    let named = |name: &str| BackendSettings {
        name: name.to_string(),
        weight: 1.0,
        requests_max: u32::MAX,
    };
    dispatcher.configure(Nanos(0), vec![named("a"), named("b")]);
    for (at, report) in (1..).zip(reports.into_iter().flatten()) {
        let now = Nanos(at * 1_000_000_000);
        let _ = dispatcher.reported(now, SiteId(0), &report);
        dispatcher.arrived(now);
        dispatcher.place(now, &[]);
    }
});
