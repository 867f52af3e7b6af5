//! Input of a sweep: plans, lists of jobs, and files of rows, by the first byte.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thermocline_sim::sweep::{Plan, parse_jobs, read_rows, write_jobs};

fuzz_target!(|data: &[u8]| {
    let Some((kind, rest)) = data.split_first() else { return };
    match (kind % 3, std::str::from_utf8(rest)) {
        (0, Ok(text)) => {
            let Ok(plan) = Plan::parse(text, "plan") else { return };
            let contest = &plan.contest;
            assert!(contest.policies.contains(&contest.baseline));
            assert!(!plan.groups.is_empty() && !plan.seeds.is_empty());
        }
        (1, Ok(text)) => {
            let Ok(jobs) = parse_jobs(text, "jobs") else { return };
            assert_eq!(parse_jobs(&write_jobs(&jobs), "again").unwrap(), jobs);
        }
        (2, _) => drop(read_rows(bytes::Bytes::copy_from_slice(rest))),
        _ => {}
    }
});
