//! The lower bound: one queue before all sites, served in order by whoever is free.
//!
//! No balancer of equal sites has a lower mean wait, whatever it knows, unless it knows how long
//! requests take. Of several free sites the fastest is taken; with unequal sites this is a strong
//! reference, and no longer a bound (a fast site that is busy may be worth waiting for).
//!
//! State: 8 B a site. O(N) a request.

use super::jobs::Job;
use super::machine::{Measures, Site};
use super::pace::Pace;
use thermocline_units::Nanos;

/// Runs it over the requests, the first `warmup` of which are not counted.
pub(super) fn run(jobs: &[Job], speeds: &[f64], paces: &[Pace], warmup: usize) -> Measures {
    let end = jobs.last().map_or(Nanos(0), |job| job.at);
    let mut sites: Vec<Site> = Site::all(speeds, paces);
    let mut measures = Measures::default();
    for (index, job) in jobs.iter().enumerate() {
        let free = |site: &Site| site.free_at <= job.at;
        let rank = |site: &Site| if free(site) { Nanos(0) } else { site.free_at };
        let first = (0..sites.len()).min_by(|a, b| {
            let (a, b) = (&sites[*a], &sites[*b]);
            rank(a).cmp(&rank(b)).then(b.speed.total_cmp(&a.speed))
        });
        let site = &mut sites[first.expect("a scenario has sites")];
        let (start, done) = site.take(job.at, job.work, end);
        if index >= warmup {
            measures.count(job.at, start, done);
        }
    }
    measures.busy = sites.iter().map(|site| site.busy_share(end)).collect();
    measures
}
