//! A policy as a user writes it: `name[:key=value…]`, with an optional filter in front,
//! `filter+name`: `lru`, `lirs:hir=0.02`, `larc+arc`.

use super::{
    Build, BuiltPlacement, Entry, Geometry, Settings, SettingsError, balancers, controllers,
    entries, filters, find, lookups, nearest, placements, schedulers, tactics,
};
use crate::accel::{Coming, NothingComing, Scheduler};
use crate::balance::Rule;
use crate::cache::admission::Filtered;
use crate::cache::{self, CachePolicy, ForeignPolicy};
use crate::lookup::Lookup;
use crate::placement::{self, ForeignPlacements, NoForesight, Placement};
use crate::tactics::Tactic;
use crate::tunnel::Controller;
use std::fmt;
use std::sync::Arc;

/// A policy description that could not be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// No policy or filter has this name.
    #[error("there is no policy `{name}`{hint}; `thermocline policies` lists them")]
    Unknown {
        /// The name as written.
        name: String,
        /// The name that was probably meant.
        hint: String,
    },
    /// The text is not `name[:key=value…]`.
    #[error("`{text}` is not `name:key=value`")]
    Form {
        /// The text as written.
        text: String,
    },
    /// The parts do not compose.
    #[error("`{text}`: {reason}")]
    Compose {
        /// The text as written.
        text: String,
        /// The reason.
        reason: String,
    },
    /// A policy of another family.
    #[error("`{label}` is a {kind}, not a {wanted}; those are {}", .names.join(", "))]
    Family {
        /// The label as written.
        label: String,
        /// The family that it belongs to.
        kind: &'static str,
        /// The family that was asked for.
        wanted: &'static str,
        /// The policies of that family.
        names: Vec<&'static str>,
    },
    /// A placement that moves chunks has nowhere to move them.
    #[error("`{0}` moves chunks between pools, and there is one")]
    OnePool(String),
    /// A setting is wrong.
    #[error(transparent)]
    Settings(#[from] SettingsError),
}

/// The placement that leaves every chunk where it is, and so needs no second pool.
const STATIC: &str = "static";

/// A filter with its settings.
#[derive(Clone)]
pub struct FilterSpec {
    /// The filter.
    pub entry: &'static Entry,
    /// Its settings, defaults filled in.
    pub settings: Settings,
}

impl FilterSpec {
    /// Reads `name[:key=value…]`.
    ///
    /// # Errors
    /// When no filter has this name, or a key is unknown; the message says what would do.
    pub fn parse(text: &str) -> Result<FilterSpec, SpecError> {
        let (entry, settings) = parse_part(text, filters)?;
        if !matches!(entry.build, Build::Admission(_)) {
            let names: Vec<_> = filters().map(|filter| filter.name).collect();
            return Err(SpecError::Compose {
                text: text.to_string(),
                reason: format!("not an admission filter; those are {}", names.join(", ")),
            });
        }
        Ok(FilterSpec { entry, settings })
    }
}

/// One policy with its settings, and the filter in front of it, if any.
///
/// ```
/// use thermocline_policy::registry::PolicySpec;
///
/// let spec = PolicySpec::parse("baseline:k=2").unwrap();
/// assert!(spec.is_placement());
/// assert!(spec.build_placement().is_ok());
/// let error = PolicySpec::parse("basline").unwrap_err();
/// assert!(error.to_string().contains("did you mean `baseline`"), "{error}");
/// ```
#[derive(Clone)]
pub struct PolicySpec {
    /// Name in tables: as the user wrote it, but for what stands in braces.
    pub label: String,
    /// Text as the user wrote it: [`PolicySpec::parse`] takes it again.
    pub written: String,
    /// The policy.
    pub entry: &'static Entry,
    /// Its settings, defaults filled in.
    pub settings: Settings,
    /// The filter on admission; `None` admits everything.
    pub filter: Option<FilterSpec>,
    /// The policy itself when it comes from outside.
    foreign: Option<Foreign>,
}

/// A policy from outside.
#[derive(Clone)]
enum Foreign {
    Cache(Arc<dyn ForeignPolicy>),
    Placement(Arc<dyn ForeignPlacements>),
}

/// A policy ready to run.
pub enum Built {
    /// Told each access.
    Cache(Box<dyn CachePolicy>),
    /// Asked once an epoch.
    Placement(Box<dyn Placement>),
    /// Asked for a site for each request.
    Balancer(Box<dyn Rule>),
    /// Asked for a chunking for each segment of a flow.
    Controller(Box<dyn Controller>),
    /// Asked where a block is read from.
    Lookup(Box<dyn Lookup>),
    /// Asked what slots of accelerators hold.
    Scheduler(Box<dyn Scheduler>),
    /// Asked one question inside a machine.
    Tactic(Tactic),
}

impl fmt::Debug for PolicySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.label)
    }
}

impl PolicySpec {
    /// Reads `[filter[:key=value…]+]name[:key=value…]`.
    ///
    /// # Errors
    /// When a name, a key or a value is unknown, or the parts do not compose; the message says what
    /// would do.
    pub fn parse(text: &str) -> Result<PolicySpec, SpecError> {
        let text = text.trim();
        let parts: Vec<&str> = text.split('+').collect();
        let compose = |reason: String| SpecError::Compose { text: text.to_string(), reason };
        let (filter, policy) = match parts[..] {
            [policy] => (None, policy),
            [filter, policy] => (Some(filter), policy),
            _ => return Err(compose("write one filter and one policy, `filter+policy`".into())),
        };
        let filter = filter.map(FilterSpec::parse).transpose()?;
        let (entry, settings) = parse_part(policy, || {
            let machines = balancers().chain(controllers()).chain(lookups()).chain(schedulers());
            entries().chain(machines).chain(tactics())
        })?;
        match (entry.build, &filter) {
            (Build::Admission(_), _) => Err(compose(format!(
                "`{0}` only decides what is admitted; put a policy behind it, such as `{0}+lru`",
                entry.name
            ))),
            (Build::Balancer(_) | Build::Oracle(_), Some(filter)) => Err(compose(format!(
                "`{}` balances requests; filters such as `{}` go before caches like lru",
                entry.name, filter.entry.name
            ))),
            (Build::Tunnel(_), Some(filter)) => Err(compose(format!(
                "`{}` controls a tunnel; filters such as `{}` go before caches like lru",
                entry.name, filter.entry.name
            ))),
            (Build::Lookup(_), Some(filter)) => Err(compose(format!(
                "`{}` says where blocks are read from; filters such as `{}` go before caches like lru",
                entry.name, filter.entry.name
            ))),
            (Build::Accel(_) | Build::AccelBound(_), Some(filter)) => Err(compose(format!(
                "`{}` schedules accelerators; filters such as `{}` go before caches like lru",
                entry.name, filter.entry.name
            ))),
            (Build::Tactic(kind, _), Some(filter)) => Err(compose(format!(
                "`{}` is a tactic ({}); filters such as `{}` go before caches like lru",
                entry.name,
                kind.name(),
                filter.entry.name
            ))),
            (Build::Placement(_) | Build::Foreseeing(_) | Build::Clairvoyant(_), Some(filter)) => {
                Err(compose(format!(
                    "`{}` admits by its own rule; filters such as `{}` go before caches like lru",
                    entry.name, filter.entry.name
                )))
            }
            _ => Ok(PolicySpec::new(text.to_string(), entry, settings, filter)),
        }
    }

    /// A policy that was read from `written`.
    pub fn new(
        written: String,
        entry: &'static Entry,
        settings: Settings,
        filter: Option<FilterSpec>,
    ) -> PolicySpec {
        let label = without_braces(&written);
        PolicySpec { label, written, entry, settings, filter, foreign: None }
    }

    /// A policy from outside, which tables call `label`. [`PolicySpec::parse`] does not find it.
    pub fn foreign(label: String, policy: Arc<dyn ForeignPolicy>) -> PolicySpec {
        PolicySpec::outside(label, &cache::foreign::ENTRY, Foreign::Cache(policy))
    }

    /// A placement from outside, which tables call `label`. [`PolicySpec::parse`] does not find it.
    pub fn foreign_placement(label: String, placement: Arc<dyn ForeignPlacements>) -> PolicySpec {
        PolicySpec::outside(label, &placement::foreign::ENTRY, Foreign::Placement(placement))
    }

    fn outside(label: String, entry: &'static Entry, policy: Foreign) -> PolicySpec {
        let settings = Settings::defaults(entry);
        PolicySpec { foreign: Some(policy), ..PolicySpec::new(label, entry, settings, None) }
    }

    /// True if it comes from outside, and [`PolicySpec::parse`] does not find it.
    pub fn is_foreign(&self) -> bool {
        self.foreign.is_some()
    }

    /// The same policy behind a filter, `name[:key=value…]`.
    ///
    /// # Errors
    /// When there is no such filter, a key or a value is unknown, or this is a placement, which
    /// admits by its own rule.
    pub fn behind(self, filter: &str) -> Result<PolicySpec, SpecError> {
        if self.is_placement() {
            let reason = "a placement admits by its own rule; filters go before caches like lru";
            return Err(SpecError::Compose { text: self.label, reason: reason.to_string() });
        }
        Ok(PolicySpec { filter: Some(FilterSpec::parse(filter)?), ..self })
    }

    /// The whole of it as text that [`PolicySpec::parse`] takes, every setting written out: it
    /// names the same policy when a default has changed meanwhile. One from outside is named as it
    /// was written.
    pub fn spelled_out(&self) -> String {
        if self.is_foreign() {
            return self.written.clone();
        }
        let part = |entry: &Entry, settings: &Settings| {
            let settings = settings.iter().map(|(key, value)| format!(":{key}={value}"));
            entry.name.to_string() + &settings.collect::<String>()
        };
        let filter = self.filter.iter().map(|filter| part(filter.entry, &filter.settings) + "+");
        filter.collect::<String>() + &part(self.entry, &self.settings)
    }

    fn not_a(&self, wanted: &'static str, names: Vec<&'static str>) -> SpecError {
        let kind = self.entry.build.kind();
        SpecError::Family { label: self.label.clone(), kind, wanted, names }
    }

    /// Returns the placement, which knows nothing yet.
    ///
    /// # Errors
    /// When this is no placement (the message names those), or a setting is wrong.
    pub fn build_placement(&self) -> Result<Box<dyn Placement>, SpecError> {
        let Build::Placement(build) = self.entry.build else {
            return Err(self.not_a("placement", placements().map(|e| e.name).collect()));
        };
        Ok(self.placement(build)?)
    }

    /// The placement: one from outside, or what `build` makes.
    fn placement(
        &self,
        build: fn(&Settings) -> BuiltPlacement,
    ) -> Result<Box<dyn Placement>, SettingsError> {
        match &self.foreign {
            Some(Foreign::Placement(foreign)) => {
                let placement = foreign.create().map_err(SettingsError::Foreign)?;
                Ok(Box::new(placement::foreign::Checked::new(placement)))
            }
            _ => build(&self.settings),
        }
    }

    /// Checks that a placement can work on so many pools.
    ///
    /// # Errors
    /// When it moves chunks and there are fewer than two pools.
    pub fn check_pools(&self, pools: usize) -> Result<(), SpecError> {
        if pools < 2 && self.entry.name != STATIC {
            return Err(SpecError::OnePool(self.label.clone()));
        }
        Ok(())
    }

    /// True if this is a per-epoch placement.
    pub fn is_placement(&self) -> bool {
        matches!(self.entry.build, Build::Placement(_))
    }

    /// True if it is a placement that must be told the future of a volume.
    pub fn foresees_volumes(&self) -> bool {
        matches!(self.entry.build, Build::Foreseeing(_))
    }

    /// True if it must be told the future: a bound, not a competitor.
    pub fn is_clairvoyant(&self) -> bool {
        self.entry.build.kind() == "bound"
    }

    /// The balancer's rule.
    ///
    /// # Errors
    /// When a setting is wrong, or this is no balancer; the message names those.
    pub fn build_rule(&self) -> Result<Box<dyn Rule>, SpecError> {
        match self.entry.build {
            Build::Balancer(build) | Build::Oracle(build) => Ok(build(&self.settings)?),
            _ => Err(self.not_a("balancer", balancers().map(|entry| entry.name).collect())),
        }
    }

    /// The tunnel's controller, for one class of flows.
    ///
    /// # Errors
    /// When a setting is wrong, or this is no controller; the message names those.
    pub fn build_controller(&self) -> Result<Box<dyn Controller>, SpecError> {
        let Build::Tunnel(build) = self.entry.build else {
            let names = controllers().map(|entry| entry.name).collect();
            return Err(self.not_a("tunnel controller", names));
        };
        Ok(build(&self.settings)?)
    }

    /// The lookup policy of a shared host cache.
    ///
    /// # Errors
    /// When a setting is wrong, or this is none; the message names those.
    pub fn build_lookup(&self) -> Result<Box<dyn Lookup>, SpecError> {
        let Build::Lookup(build) = self.entry.build else {
            let names = lookups().map(|entry| entry.name).collect();
            return Err(self.not_a("lookup policy", names));
        };
        Ok(build(&self.settings)?)
    }

    /// The scheduler of a pool of accelerators. `coming` is for one that is told the demand to
    /// come; others ignore it.
    ///
    /// # Errors
    /// When a setting is wrong, or this is no scheduler; the message names those.
    pub fn build_scheduler(
        &self,
        coming: Box<dyn Coming>,
    ) -> Result<Box<dyn Scheduler>, SpecError> {
        match self.entry.build {
            Build::Accel(build) => Ok(build(&self.settings)?),
            Build::AccelBound(build) => Ok(build(&self.settings, coming)?),
            _ => {
                let names = schedulers().map(|entry| entry.name).collect();
                Err(self.not_a("accelerator scheduler", names))
            }
        }
    }

    /// The tactic.
    ///
    /// # Errors
    /// When a setting is wrong, or this is no tactic; the message names those.
    pub(crate) fn build_tactic(&self) -> Result<Tactic, SpecError> {
        let Build::Tactic(_, build) = self.entry.build else {
            return Err(self.not_a("tactic", tactics().map(|entry| entry.name).collect()));
        };
        Ok(build(&self.settings)?)
    }

    /// True if it must know beforehand how many volumes share the cache.
    pub fn needs_volumes(&self) -> bool {
        cache::SHARED.iter().any(|entry| entry.name == self.entry.name)
    }

    /// True if this is LRU with nothing in front, which can be swept over many sizes at once.
    pub fn is_plain_lru(&self) -> bool {
        self.entry.name == "lru" && self.filter.is_none()
    }

    /// The policy for `geometry` (which a placement does not need: it sees its capacity in the
    /// view). `future` is for a clairvoyant one: see [`Build::Clairvoyant`]; others ignore it.
    ///
    /// # Errors
    /// When a setting is wrong.
    ///
    /// # Panics
    /// When a clairvoyant policy is given no future: a bug of the caller.
    pub fn build(
        &self,
        geometry: &Geometry,
        future: Option<&Arc<[u32]>>,
    ) -> Result<Built, SettingsError> {
        let cache = match self.entry.build {
            Build::Placement(build) => return Ok(Built::Placement(self.placement(build)?)),
            Build::Balancer(build) | Build::Oracle(build) => {
                return Ok(Built::Balancer(build(&self.settings)?));
            }
            Build::Foreseeing(build) => {
                // Nobody tells it anything here: it foresees nothing, and moves nothing.
                return Ok(Built::Placement(build(&self.settings, Box::new(NoForesight))?));
            }
            Build::Tunnel(build) => return Ok(Built::Controller(build(&self.settings)?)),
            Build::Lookup(build) => return Ok(Built::Lookup(build(&self.settings)?)),
            Build::Accel(build) => return Ok(Built::Scheduler(build(&self.settings)?)),
            Build::Tactic(_, build) => return Ok(Built::Tactic(build(&self.settings)?)),
            Build::AccelBound(build) => {
                // As above: it foresees nothing, and loads nothing.
                return Ok(Built::Scheduler(build(&self.settings, Box::new(NothingComing))?));
            }
            Build::Cache(build) => match &self.foreign {
                Some(Foreign::Cache(foreign)) => {
                    let cache = foreign.create(geometry).map_err(SettingsError::Foreign)?;
                    Box::new(cache::foreign::Checked::new(cache, geometry.lines))
                }
                _ => build(geometry, &self.settings)?,
            },
            Build::Clairvoyant(build) => {
                let future = future.expect("a clairvoyant policy is told the future");
                build(geometry, &self.settings, Arc::clone(future))?
            }
            Build::Admission(_) => unreachable!("parsing lets no filter be a policy"),
        };
        let Some(filter) = &self.filter else { return Ok(Built::Cache(cache)) };
        let Build::Admission(build) = filter.entry.build else {
            unreachable!("parsing lets no policy be a filter")
        };
        let filter = build(geometry, &filter.settings)?;
        Ok(Built::Cache(Box::new(Filtered::new(filter, cache))))
    }
}

/// Reads `name[:key=value…]`; `candidates` are what an unknown name may have meant.
fn parse_part<I: Iterator<Item = &'static Entry>>(
    text: &str,
    candidates: impl Fn() -> I,
) -> Result<(&'static Entry, Settings), SpecError> {
    let mut parts = text.split(':');
    let name = parts.next().unwrap_or_default().trim();
    let entry = find(name).ok_or_else(|| unknown(name, candidates()))?;
    let mut settings = Settings::defaults(entry);
    let mut seen = Vec::new();
    for part in parts {
        let (key, value) =
            part.split_once('=').ok_or_else(|| SpecError::Form { text: part.to_string() })?;
        settings.set(entry, key.trim(), value.trim())?;
        if seen.contains(&key.trim()) {
            let reason = format!("`{}` is given twice; leave one of them out", key.trim());
            return Err(SpecError::Compose { text: text.to_string(), reason });
        }
        seen.push(key.trim());
    }
    Ok((entry, settings))
}

/// `text` without what stands in braces: values that are whole texts of their own, after a name.
fn without_braces(text: &str) -> String {
    let mut depth = 0_u32;
    let outside = |c: &char| {
        depth += u32::from(*c == '{');
        let outside = depth == 0;
        depth -= u32::from(*c == '}' && depth > 0);
        outside
    };
    text.chars().filter(outside).collect()
}

fn unknown(name: &str, candidates: impl Iterator<Item = &'static Entry>) -> SpecError {
    let hint = nearest(name, candidates.map(|e| e.name))
        .map(|n| format!("; did you mean `{n}`?"))
        .unwrap_or_default();
    SpecError::Unknown { name: name.to_string(), hint }
}
