//! Lookahead allocation: units of cache to those who earn most by them.
//!
//! 1. Everyone gets its minimum; the sum of the minima leaves the balance.
//! 2. For each tenant, the number of further units with the highest gain *per unit*, looking as far
//!    as the balance reaches: so a cliff in the curve is seen from its foot.
//! 3. The best tenant gets its units; again from 2 while there is balance and gain.
//! 4. Units that earn nothing go round in turn, to those below their maximum first.
//!
//! Source: M. Qureshi & Y. Patt, "Utility-Based Cache Partitioning", MICRO 2006. Optimal where the
//! curves are concave. O(tenants · units²).

/// One tenant's stake.
#[derive(Debug, Clone)]
pub(super) struct Stake {
    /// Hits with 0, 1, 2, … units; does not fall. One entry more than there are units.
    pub(super) hits: Vec<f64>,
    /// Units at least.
    pub(super) min: usize,
    /// Units that can earn something.
    pub(super) max: usize,
}

/// Units for each tenant; they sum to `units`.
///
/// # Panics
/// When the minima exceed `units`, or a curve is too short.
pub(super) fn allocate(stakes: &[Stake], units: usize) -> Vec<usize> {
    let minima: usize = stakes.iter().map(|s| s.min).sum();
    assert!(minima <= units, "the minima leave nothing to divide");
    assert!(stakes.iter().all(|s| s.hits.len() > units), "a curve covers all units");
    let mut given: Vec<usize> = stakes.iter().map(|s| s.min).collect();
    let mut balance = units - minima;
    while balance > 0 {
        let best = stakes.iter().zip(&given).enumerate().filter_map(|(i, (stake, has))| {
            best_step(stake, *has, balance).map(|(gain, more)| (gain, i, more))
        });
        // Of equal gains the first tenant's; `max_by` would take the last.
        let Some((_, i, more)) = best.reduce(|a, b| if b.0 > a.0 { b } else { a }) else { break };
        given[i] += more;
        balance -= more;
    }
    spread(stakes, &mut given, balance);
    given
}

/// The highest gain per unit that `stake` can make of up to `balance` units more, and of how many.
fn best_step(stake: &Stake, has: usize, balance: usize) -> Option<(f64, usize)> {
    let reach = balance.min(stake.max.saturating_sub(has));
    let gain = |more: usize| (stake.hits[has + more] - stake.hits[has]) / more as f64;
    (1..=reach)
        .map(|more| (gain(more), more))
        .filter(|(gain, _)| *gain > 0.0)
        .reduce(|a, b| if b.0 > a.0 { b } else { a })
}

/// Deals `balance` units out in turn.
fn spread(stakes: &[Stake], given: &mut [usize], mut balance: usize) {
    while balance > 0 {
        let below_max = |i: &usize| given[*i] < stakes[*i].max;
        let mut turn: Vec<usize> = (0..given.len()).filter(below_max).collect();
        if turn.is_empty() {
            turn = (0..given.len()).collect();
        }
        for i in turn.into_iter().take(balance) {
            given[i] += 1;
            balance -= 1;
        }
    }
}
