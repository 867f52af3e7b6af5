//! A second of a pool: what was added to its totals.

use crate::api::{PoolSecond, PoolStatus, WorkerSecond};
use thermocline_admin::past::Totals;

impl Totals for PoolStatus {
    type Second = PoolSecond;

    fn since(&self, before: &PoolStatus, number: u64) -> PoolSecond {
        second(number, before, self)
    }
}

fn second(number: u64, before: &PoolStatus, now: &PoolStatus) -> PoolSecond {
    let packets = (&before.packets, &now.packets);
    let received =
        |status: &PoolStatus| status.interfaces.iter().map(|it| it.received_bytes).sum::<u64>();
    let seconds = now.uptime_seconds - before.uptime_seconds;
    let worker = |function: Option<String>, (was, is): (u64, u64), cost_ns: Option<f64>| {
        let packets = is.saturating_sub(was);
        let busy = packets as f64 * cost_ns.unwrap_or(0.0) / 1e9;
        let load = if seconds > 0.0 { (busy / seconds).min(1.0) } else { 0.0 };
        WorkerSecond { function, packets, load }
    };
    let slots = before.slots.iter().zip(&now.slots);
    let functions = before.functions.iter().zip(&now.functions);
    PoolSecond {
        number,
        offered: packets.1.offered.saturating_sub(packets.0.offered),
        passed: packets.1.passed.saturating_sub(packets.0.passed),
        dropped: packets.1.dropped_by_functions.saturating_sub(packets.0.dropped_by_functions),
        lost: packets.1.lost.saturating_sub(packets.0.lost),
        received_bytes: received(now).saturating_sub(received(before)),
        loads: packets.1.loads.saturating_sub(packets.0.loads),
        slots: slots
            .map(|(was, is)| worker(is.function.clone(), (was.processed, is.processed), is.cost_ns))
            .collect(),
        processor: functions
            .map(|(was, is)| {
                let counts = (was.processor_processed, is.processor_processed);
                worker(Some(is.name.clone()), counts, is.processor_cost_ns)
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests;
