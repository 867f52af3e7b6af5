//! Candidates for a change: other policies, more or less of the fast pool, a block cache from it, a
//! bucket below; and sets of devices that could be bought instead.

use crate::machine::{CachePlan, PoolPlan, PoolSize};
use thermocline_blockcache::Settings;
use thermocline_policy::registry::PolicySpec;
use thermocline_ports::model::Profile;
use thermocline_units::Bytes;

/// Pools and policy that are to be tried.
#[derive(Debug, Clone)]
pub(super) struct Trial {
    /// The change, in a few words.
    pub(super) what: String,
    pub(super) pools: Vec<PoolPlan>,
    pub(super) policy: PolicySpec,
}

impl Trial {
    /// A trial under `policy`, or under `static` where there is one pool only.
    pub(super) fn new(what: String, pools: Vec<PoolPlan>, policy: &PolicySpec) -> Trial {
        let policy = match pools.len() {
            1 => PolicySpec::parse("static").expect("it is registered"),
            _ => policy.clone(),
        };
        Trial { what, pools, policy }
    }
}

/// The bucket that is tried below the slowest pool.
const BUCKET: &str = "s3-1gbps";

/// The pools with sizes in bytes, for a load that touches so many chunks.
pub(super) fn sized(pools: &[PoolPlan], chunk: Bytes, touched: u64) -> Vec<PoolPlan> {
    let size = |pool: &PoolPlan| Bytes(pool.size.chunks(chunk, touched).saturating_mul(chunk.0));
    pools
        .iter()
        .map(|pool| PoolPlan { size: PoolSize::Bytes(size(pool)), ..pool.clone() })
        .collect()
}

fn bytes_of(pool: &PoolPlan) -> Bytes {
    match pool.size {
        PoolSize::Bytes(bytes) => bytes,
        PoolSize::Share(_) => unreachable!("`sized` was called before"),
    }
}

fn resized(pools: &[PoolPlan], index: usize, bytes: Bytes) -> Vec<PoolPlan> {
    let mut pools = pools.to_vec();
    pools[index].size = PoolSize::Bytes(bytes);
    pools
}

/// Everything that is tried beside what there is, whose pools are `sized`. `more`: bytes that are
/// added to the fastest pool; as much again where nobody says. Halves are whole chunks: a pool of
/// one chunk has none.
pub(super) fn trials(
    pools: &[PoolPlan],
    (policy, rivals): (&PolicySpec, &[PolicySpec]),
    more: Option<Bytes>,
    chunk: Bytes,
) -> Vec<Trial> {
    let with = |what: String, pools: Vec<PoolPlan>| Trial::new(what, pools, policy);
    let mut trials: Vec<Trial> = rivals
        .iter()
        .filter(|rival| rival.label != policy.label)
        .map(|rival| Trial::new(format!("policy {}", rival.label), pools.to_vec(), rival))
        .collect();
    if pools.len() < 2 {
        trials.clear();
        trials.extend(with_bucket(pools, chunk).map(|bucket| with(in_bucket(pools), bucket)));
        return trials;
    }
    let (fast, size) = (&pools[0], bytes_of(&pools[0]));
    let half = half_of(size, chunk);
    let added = more.unwrap_or(size);
    let larger = Bytes(size.0.saturating_add(added.0));
    trials.push(with(format!("{added} more of {}", fast.name), resized(pools, 0, larger)));
    trials.extend(half.map(|half| with(format!("half of {}", fast.name), resized(pools, 0, half))));
    if pools[1].cache.is_none() {
        // What the fast pool held for clients is held by the slower one then.
        let below = bytes_of(&pools[1]);
        let cached = |taken: Bytes| {
            let mut cached = resized(pools, 1, Bytes(below.0.saturating_add(taken.0)));
            cached[0].size = PoolSize::Bytes(Bytes(size.0 - taken.0));
            cached[1].cache = Some(CachePlan {
                profile_name: fast.profile_name.clone(),
                profile: fast.profile.clone(),
                size: PoolSize::Bytes(taken),
                policy: Settings::default().policy,
            });
            cached
        };
        let of = |part: &str| format!("{part} {} as a block cache of {}", fast.name, pools[1].name);
        trials.push(with(of("all of"), cached(size).split_off(1)));
        trials.extend(half.map(|half| with(of("half of"), cached(half))));
    }
    trials.extend(with_bucket(pools, chunk).map(|bucket| with(in_bucket(pools), bucket)));
    trials
}

/// Half of a size, in whole chunks; `None`: there is no half.
fn half_of(size: Bytes, chunk: Bytes) -> Option<Bytes> {
    let half = Bytes(size.0 / 2 / chunk.0 * chunk.0);
    (half.0 > 0).then_some(half)
}

fn in_bucket(pools: &[PoolPlan]) -> String {
    format!("a bucket for half of {}", pools[pools.len() - 1].name)
}

/// Half of the slowest pool in a bucket; `None`: it is one, or has no half, or there is no pool.
fn with_bucket(pools: &[PoolPlan], chunk: Bytes) -> Option<Vec<PoolPlan>> {
    let last = pools.len().checked_sub(1)?;
    if pools[last].profile_name.starts_with("s3") {
        return None;
    }
    let size = bytes_of(&pools[last]);
    let half = half_of(size, chunk)?;
    let mut pools = resized(pools, last, Bytes(size.0 - half.0));
    pools.push(plan("bucket", BUCKET, PoolSize::Bytes(half)));
    Some(pools)
}

fn plan(name: &str, profile: &str, size: PoolSize) -> PoolPlan {
    PoolPlan {
        name: name.to_string(),
        profile_name: profile.to_string(),
        profile: Profile::built_in(profile).expect("it is built in"),
        size,
        reserve: Bytes(0),
        cache: None,
    }
}

/// Sets of devices that could be bought: one kind for everything, or a share of a fast one over a
/// slow one that holds everything.
pub(super) fn sets(policy: &PolicySpec) -> Vec<Trial> {
    let all = PoolSize::Share(1.0);
    let alone = ["hdd-7200", "ssd-sata", "nvme"].map(|profile| {
        Trial::new(format!("{profile} alone"), vec![plan(profile, profile, all)], policy)
    });
    let pairs = [("nvme", "hdd-7200"), ("ssd-sata", "hdd-7200"), ("nvme", "ssd-sata")];
    let shares = [0.02, 0.05, 0.1, 0.2, 0.4];
    let over = pairs.into_iter().flat_map(|(fast, slow)| {
        shares.map(|share| {
            let pools = vec![plan(fast, fast, PoolSize::Share(share)), plan(slow, slow, all)];
            Trial::new(format!("{:.0} % {fast} over {slow}", share * 100.0), pools, policy)
        })
    });
    alone.into_iter().chain(over).collect()
}
