//! Pools of modelled devices: the `pools.toml` of `lab volume`, and what their sizes come to.
//!
//! Pools are listed fastest first. A size is what the pool holds for clients, in bytes or as a
//! share of the chunks that the trace touches; metadata comes on top. The modelled device is
//! exactly as large as its pool: a scaled-down disk keeps its seek curve over the whole of its
//! smaller surface.

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use thermocline_blockcache::Settings;
use thermocline_policy::cache::SetRule;
use thermocline_ports::model::{Profile, ProfileError};
use thermocline_units::{Bytes, nearest};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A list of pools that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{origin}: {problem}")]
pub struct PoolsError {
    /// The file, with the line where there is one.
    pub origin: String,
    /// The fault, and what to do.
    pub problem: String,
}

/// Size of a pool.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PoolSize {
    /// A number of bytes.
    Bytes(Bytes),
    /// This share of the chunks that the trace touches, above 0.
    Share(f64),
}

/// A pool that is to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolPlan {
    /// For people.
    pub name: String,
    /// The profile's name or file.
    pub profile_name: String,
    /// The device.
    pub profile: Profile,
    /// Its size.
    pub size: PoolSize,
    /// Part of it that is kept free for prefetched copies.
    pub reserve: Bytes,
    /// A block cache in front of its device.
    pub cache: Option<CachePlan>,
}

/// A block cache that is to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct CachePlan {
    /// The profile's name or file.
    pub profile_name: String,
    /// The fast device.
    pub profile: Profile,
    /// The fast device's bytes, or its share of the pool's.
    pub size: PoolSize,
    /// Rule for which line of a full set leaves.
    pub policy: SetRule,
}

impl PoolSize {
    /// Size in chunks, at least one, for a trace that touches `touched` chunks. Rounded up.
    pub fn chunks(self, chunk: Bytes, touched: u64) -> u64 {
        let chunks = match self {
            PoolSize::Bytes(bytes) => bytes.0.div_ceil(chunk.0),
            // A hair less, so that 10 % of 1,000 are not 101 by rounding.
            PoolSize::Share(share) => (touched as f64 * share - 1e-6).ceil() as u64,
        };
        chunks.max(1)
    }
}

impl PoolSize {
    /// Size in bytes, of a pool of `pool` bytes.
    pub fn bytes(self, pool: Bytes) -> Bytes {
        match self {
            PoolSize::Bytes(bytes) => bytes,
            PoolSize::Share(share) => Bytes((pool.0 as f64 * share) as u64),
        }
    }
}

impl fmt::Display for PoolSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PoolSize::Bytes(bytes) => bytes.fmt(f),
            PoolSize::Share(share) => f.pad(&format!("{}%", share * 100.0)),
        }
    }
}

impl FromStr for PoolSize {
    type Err = String;

    fn from_str(text: &str) -> Result<PoolSize, String> {
        let wrong =
            || format!("`{text}` is not a pool's size; write 4GiB or 10% (of the chunks touched)");
        if let Some(percent) = text.trim().strip_suffix('%') {
            let percent: f64 = percent.trim().parse().map_err(|_| wrong())?;
            let good = percent > 0.0 && percent <= 1e6;
            return if good { Ok(PoolSize::Share(percent / 100.0)) } else { Err(wrong()) };
        }
        match text.parse() {
            Ok(Bytes(0)) | Err(_) => Err(wrong()),
            Ok(bytes) => Ok(PoolSize::Bytes(bytes)),
        }
    }
}

impl PoolPlan {
    /// Pools when nobody names any: an NVMe SSD of a tenth of the chunks touched over a 7,200 rpm
    /// disk that holds all of them.
    pub fn assumed() -> Vec<PoolPlan> {
        let plan = |name: &str, profile: &str, share: f64| PoolPlan {
            name: name.to_string(),
            profile_name: profile.to_string(),
            profile: Profile::built_in(profile).expect("these profiles are built in"),
            size: PoolSize::Share(share),
            reserve: Bytes(0),
            cache: None,
        };
        vec![plan("nvme", "nvme", 0.1), plan("hdd", "hdd-7200", 1.0)]
    }
}

/// Reads a `pools.toml`; `origin` is what messages call it, and profile files are looked for beside
/// it.
///
/// # Errors
/// When it is no TOML, a key is unknown (the message names the nearest) or missing, or a value is
/// out of its range. The message names the line.
pub fn parse_pools(text: &str, origin: &Path) -> Result<Vec<PoolPlan>, PoolsError> {
    let file = File { text, origin };
    let table = DeTable::parse(text).map_err(|error| PoolsError {
        origin: origin.display().to_string(),
        problem: error.to_string().trim_end().to_string(),
    })?;
    let table = table.into_inner();
    let mut plans: Vec<PoolPlan> = Vec::new();
    for (key, value) in &table {
        if key.get_ref() != "pool" {
            let hint = "pools stand in tables `[[pool]]`, fastest first";
            return Err(
                file.at(key.span().start, format!("unknown key `{}`; {hint}", key.get_ref()))
            );
        }
        let DeValue::Array(pools) = value.get_ref() else {
            return Err(file.at(key.span().start, "write `[[pool]]`, in double brackets"));
        };
        for pool in pools.iter() {
            let plan = file.pool(pool)?;
            if plans.iter().any(|other| other.name == plan.name) {
                let problem = format!("two pools are called `{}`", plan.name);
                return Err(file.at(pool.span().start, problem));
            }
            plans.push(plan);
        }
    }
    if plans.is_empty() {
        return Err(file.at(0, "there is no pool; add a table `[[pool]]`, fastest first"));
    }
    Ok(plans)
}

/// Keys of a pool.
const KEYS: [&str; 5] = ["name", "profile", "size", "reserve", "cache"];
/// Keys of a pool's cache.
const CACHE_KEYS: [&str; 3] = ["profile", "size", "policy"];

/// The text that is being read.
struct File<'a> {
    text: &'a str,
    origin: &'a Path,
}

type Pool<'a> = Spanned<DeValue<'a>>;

impl File<'_> {
    fn at(&self, byte: usize, problem: impl Into<String>) -> PoolsError {
        let line = self.text[..byte.min(self.text.len())].matches('\n').count() + 1;
        let origin = format!("{}, line {line}", self.origin.display());
        PoolsError { origin, problem: problem.into() }
    }

    fn pool(&self, pool: &Pool<'_>) -> Result<PoolPlan, PoolsError> {
        let DeValue::Table(table) = pool.get_ref() else {
            return Err(self.at(pool.span().start, "write `[[pool]]`, in double brackets"));
        };
        self.known_only(table, "a pool", &KEYS)?;
        let profile_name = self.needed(pool, "profile")?.0;
        let plan = PoolPlan {
            profile: self.profile(pool)?,
            name: self.text_of(pool, "name")?.map_or_else(|| profile_name.clone(), |name| name.0),
            profile_name,
            size: self.parsed(self.needed(pool, "size")?)?,
            reserve: match self.text_of(pool, "reserve")? {
                Some(reserve) => self.parsed(reserve)?,
                None => Bytes(0),
            },
            cache: table.get("cache").map(|cache| self.cache(cache)).transpose()?,
        };
        match plan.name.len() {
            1..=16 => Ok(plan),
            _ => Err(self.at(pool.span().start, "a pool's name has 1 to 16 bytes; add `name`")),
        }
    }

    fn cache(&self, cache: &Pool<'_>) -> Result<CachePlan, PoolsError> {
        let DeValue::Table(table) = cache.get_ref() else {
            return Err(self.at(cache.span().start, "write `[pool.cache]`, a table"));
        };
        self.known_only(table, "a pool's cache", &CACHE_KEYS)?;
        Ok(CachePlan {
            profile: self.profile(cache)?,
            profile_name: self.needed(cache, "profile")?.0,
            size: self.parsed(self.needed(cache, "size")?)?,
            policy: match self.text_of(cache, "policy")? {
                Some(policy) => self.parsed(policy)?,
                None => Settings::default().policy,
            },
        })
    }

    fn known_only(
        &self,
        table: &DeTable<'_>,
        whose: &str,
        keys: &[&'static str],
    ) -> Result<(), PoolsError> {
        let Some(key) = table.keys().find(|key| !keys.contains(&&**key.get_ref())) else {
            return Ok(());
        };
        let name: &str = key.get_ref();
        let hint = match nearest(name, keys.iter().copied()) {
            Some(like) => format!("did you mean `{like}`?"),
            None => format!("{whose} has {}", keys.join(", ")),
        };
        Err(self.at(key.span().start, format!("unknown key `{name}`; {hint}")))
    }

    /// A text and where it stands.
    fn text_of(&self, pool: &Pool<'_>, key: &str) -> Result<Option<(String, usize)>, PoolsError> {
        let value = pool.get_ref().get(key);
        let Some(value) = value else { return Ok(None) };
        match value.get_ref() {
            DeValue::String(text) => Ok(Some((text.to_string(), value.span().start))),
            _ => {
                let example = match key {
                    "reserve" => "1GiB",
                    "policy" => Settings::default().policy.name(),
                    _ => "10%",
                };
                let problem = format!("`{key}` is a text in quotes, such as {key} = \"{example}\"");
                Err(self.at(value.span().start, problem))
            }
        }
    }

    fn needed(&self, pool: &Pool<'_>, key: &str) -> Result<(String, usize), PoolsError> {
        let example = if key == "size" { "10%" } else { "nvme" };
        self.text_of(pool, key)?.ok_or_else(|| {
            self.at(pool.span().start, format!("this pool lacks {key} = \"{example}\""))
        })
    }

    fn parsed<T: FromStr<Err: fmt::Display>>(
        &self,
        (text, at): (String, usize),
    ) -> Result<T, PoolsError> {
        text.parse().map_err(|error: T::Err| self.at(at, error.to_string()))
    }

    /// A built-in profile, or one in a file beside this one.
    fn profile(&self, pool: &Pool<'_>) -> Result<Profile, PoolsError> {
        let (name, at) = self.needed(pool, "profile")?;
        if !name.ends_with(".toml") {
            let known = || Profile::names().collect::<Vec<_>>().join(", ");
            return Profile::built_in(&name).map_err(|error: ProfileError| {
                self.at(at, format!("{error}; there are {}, or name a file *.toml", known()))
            });
        }
        let path = self.origin.parent().unwrap_or(Path::new("")).join(&name);
        let text = std::fs::read_to_string(&path)
            .map_err(|error| self.at(at, format!("{}: {error}", path.display())))?;
        let origin = path.display().to_string();
        Profile::parse(&text, &origin)
            .map_err(|error| PoolsError { origin: error.origin, problem: error.problem })
    }
}

#[cfg(test)]
mod tests;
