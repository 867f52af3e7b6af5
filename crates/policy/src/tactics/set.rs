//! The tactics of a machine: one of each kind in force, and shadows beside it.

use super::{
    Allocation, Cleaning, CopyRate, Ejection, Kind, Probing, Redirection, Replica, Retention,
    RetryRule, ShareRule, Tactic, TrialRule, WriteBack, Yielding,
};
use crate::registry::{PolicySpec, SpecError, nearest};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The tactic of one kind that is in force, with shadows: asked the same, and not followed.
pub struct Chosen<T: ?Sized> {
    name: String,
    tactic: Arc<T>,
    shadows: Vec<Shadow<T>>,
}

struct Shadow<T: ?Sized> {
    name: String,
    tactic: Arc<T>,
    asked: AtomicU64,
    differed: AtomicU64,
}

/// Answers of a shadow beside those of the tactic in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disagreement {
    /// The kind of both.
    pub kind: Kind,
    /// The tactic in force, as it was written.
    pub in_force: String,
    /// The shadow, as it was written.
    pub shadow: String,
    /// Questions so far.
    pub asked: u64,
    /// Those of them that the shadow would have answered otherwise.
    pub differed: u64,
}

impl<T: ?Sized> Chosen<T> {
    fn new(name: String, tactic: Arc<T>) -> Chosen<T> {
        Chosen { name, tactic, shadows: Vec::new() }
    }

    /// The tactic in force, as it was written.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The tactic in force and its shadows, as they were written.
    fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&*self.name).chain(self.shadows.iter().map(|shadow| &*shadow.name))
    }

    /// True if the tactic in force or one of its shadows is so.
    pub fn any(&self, is_so: impl Fn(&T) -> bool) -> bool {
        is_so(&self.tactic) || self.shadows.iter().any(|shadow| is_so(&shadow.tactic))
    }

    /// Asks the tactic in force, and then each shadow.
    pub fn ask<A: PartialEq>(&self, question: impl Fn(&T) -> A) -> A {
        let answer = question(&self.tactic);
        for shadow in &self.shadows {
            let differs = question(&shadow.tactic) != answer;
            shadow.asked.fetch_add(1, Ordering::Relaxed);
            shadow.differed.fetch_add(u64::from(differs), Ordering::Relaxed);
        }
        answer
    }

    /// Asks the tactic in force only: what follows from its answers depends on its own settings.
    pub fn tactic(&self) -> &T {
        &self.tactic
    }

    fn shadow(&mut self, name: String, tactic: Arc<T>) {
        let (asked, differed) = (AtomicU64::new(0), AtomicU64::new(0));
        self.shadows.push(Shadow { name, tactic, asked, differed });
    }

    fn disagreements(&self, kind: Kind, out: &mut Vec<Disagreement>) {
        out.extend(self.shadows.iter().map(|shadow| Disagreement {
            kind,
            in_force: self.name.clone(),
            shadow: shadow.name.clone(),
            asked: shadow.asked.load(Ordering::Relaxed),
            differed: shadow.differed.load(Ordering::Relaxed),
        }));
    }
}

/// The same tactics, whose shadows have not been asked yet.
impl<T: ?Sized> Clone for Chosen<T> {
    fn clone(&self) -> Chosen<T> {
        let mut chosen = Chosen::new(self.name.clone(), Arc::clone(&self.tactic));
        for shadow in &self.shadows {
            chosen.shadow(shadow.name.clone(), Arc::clone(&shadow.tactic));
        }
        chosen
    }
}

/// Equal if the same was written, shadows included.
impl<T: ?Sized> PartialEq for Chosen<T> {
    fn eq(&self, other: &Chosen<T>) -> bool {
        let shadows = |chosen: &Chosen<T>| chosen.shadows.iter().map(|s| s.name.clone()).collect();
        let (ours, theirs): (Vec<String>, Vec<String>) = (shadows(self), shadows(other));
        self.name == other.name && ours == theirs
    }
}

impl<T: ?Sized> Eq for Chosen<T> {}

impl<T: ?Sized> std::fmt::Debug for Chosen<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

/// A tactic that a machine cannot use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TacticError {
    /// Its description is wrong.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// No tactic has this name.
    #[error("there is no tactic `{name}`{hint}; `thermocline policies tactic` lists them")]
    Unknown {
        /// The name as written.
        name: String,
        /// The name that was probably meant.
        hint: String,
    },
    /// A policy of another family.
    #[error("`{label}` is a {kind}, not a tactic; tactics of {asker} are {}", .names.join(", "))]
    NoTactic {
        /// The name as it was written.
        label: String,
        /// The family that it belongs to.
        kind: &'static str,
        /// The machine.
        asker: &'static str,
        /// The tactics that it asks.
        names: Vec<&'static str>,
    },
    /// One tactic twice.
    #[error("`{0}` is given twice")]
    Repeated(String),
    /// Two of one kind.
    #[error("`{first}` and `{second}` are of one kind ({}); leave one of them out", kind.name())]
    Twice {
        /// Their kind.
        kind: Kind,
        /// The first, as it was written.
        first: String,
        /// The other one.
        second: String,
    },
    /// A kind that shadows cannot follow.
    #[error(
        "`{label}` cannot be a shadow: what a {} is asked depends on the one in force; compare it in \
         runs of its own, `lab volume --tactic`", kind.tactic()
    )]
    NoShadow {
        /// The name as it was written.
        label: String,
        /// Its kind.
        kind: Kind,
    },
    /// Another machine asks it.
    #[error("`{label}` is of the kind {}, which {asker} never asks", kind.name())]
    Stranger {
        /// The name as it was written.
        label: String,
        /// Its kind.
        kind: Kind,
        /// The machine.
        asker: &'static str,
    },
}

/// Reads the description of a tactic that `asker` asks; `is_asked` says which kinds that are.
fn parse(
    text: &str,
    asker: &'static str,
    is_asked: fn(Kind) -> bool,
) -> Result<PolicySpec, TacticError> {
    let asked = || super::ENTRIES.iter().filter(|entry| entry.tactic_kind().is_some_and(is_asked));
    let spec = PolicySpec::parse(text).map_err(|error| match error {
        SpecError::Unknown { name, .. } => {
            let hint = nearest(&name, asked().map(|entry| entry.name));
            let hint = hint.map_or(String::new(), |name| format!("; did you mean `{name}`?"));
            TacticError::Unknown { name, hint }
        }
        error => TacticError::Spec(error),
    })?;
    let label = spec.label.clone();
    match spec.entry.tactic_kind() {
        None => {
            let names = asked().map(|entry| entry.name).collect();
            Err(TacticError::NoTactic { label, kind: spec.entry.build.kind(), asker, names })
        }
        Some(kind) if !is_asked(kind) => Err(TacticError::Stranger { label, kind, asker }),
        Some(_) => Ok(spec),
    }
}

/// The default tactic of a kind, built.
macro_rules! default_of {
    ($kind:ident) => {{
        let entry = super::ENTRIES.iter().find(|entry| entry.tactic_kind() == Some(Kind::$kind));
        let spec = PolicySpec::parse(entry.expect("each kind has tactics").name);
        let built = spec.and_then(|spec| spec.build_tactic()).expect("defaults are valid");
        let Tactic::$kind(tactic) = built else { unreachable!("an entry builds its kind") };
        Chosen::new(entry.expect("as above").name.to_string(), tactic)
    }};
}

/// Declares the tactics of one machine.
macro_rules! tactics_of {
    ($(#[$doc:meta])* $name:ident, $asker:literal, {
        $($(#[$field_doc:meta])* $field:ident: $kind:ident, $tactic:ident;)*
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: Chosen<dyn $tactic>,)*
        }

        impl Default for $name {
            fn default() -> $name {
                $name { $($field: default_of!($kind),)* }
            }
        }

        impl $name {
            /// Reads the description of one of these tactics, `name[:key=value…]`.
            ///
            /// # Errors
            /// When it is no tactic, a setting is wrong, or this machine never asks its kind.
            pub fn parse(text: &str) -> Result<PolicySpec, TacticError> {
                parse(text, $asker, |kind| matches!(kind, $(Kind::$kind)|*))
            }

            /// The defaults, but for those of these texts, one of a kind at most.
            ///
            /// # Errors
            /// As [`Self::parse`], and when two are of one kind.
            pub fn of(texts: &[&str]) -> Result<$name, TacticError> {
                let mut tactics = $name::default();
                let mut chosen: Vec<(Kind, String)> = Vec::new();
                for text in texts {
                    let spec = $name::parse(text)?;
                    tactics.choose(&spec)?;
                    let kind = spec.entry.tactic_kind().expect("it was chosen");
                    if let Some((_, first)) = chosen.iter().find(|(known, _)| *known == kind) {
                        return Err(two_of(kind, first.clone(), spec.label));
                    }
                    chosen.push((kind, spec.label));
                }
                Ok(tactics)
            }

            /// Puts a tactic in force, in place of the one of its kind.
            ///
            /// # Errors
            /// When a setting is wrong, or this machine never asks its kind.
            pub fn choose(&mut self, spec: &PolicySpec) -> Result<(), TacticError> {
                match spec.build_tactic()? {
                    $(Tactic::$kind(tactic) => {
                        self.$field.name = spec.label.clone();
                        self.$field.tactic = tactic;
                    })*
                    _ => return Err(stranger(spec, $asker)),
                }
                Ok(())
            }

            /// Lets a tactic follow as a shadow of the one of its kind.
            ///
            /// # Errors
            /// As [`Self::choose`]; when it is in force or follows already, and when nobody can
            /// follow its kind.
            pub fn follow(&mut self, spec: &PolicySpec) -> Result<(), TacticError> {
                let label = spec.label.clone();
                match spec.build_tactic()? {
                    $(Tactic::$kind(_) if !Kind::$kind.has_shadows() => {
                        return Err(TacticError::NoShadow { label, kind: Kind::$kind });
                    })*
                    $(Tactic::$kind(_) if self.$field.names().any(|name| name == label) => {
                        return Err(TacticError::Repeated(label));
                    })*
                    $(Tactic::$kind(tactic) => self.$field.shadow(label, tactic),)*
                    _ => return Err(stranger(spec, $asker)),
                }
                Ok(())
            }

            /// Answers of shadows beside those in force, by kind.
            pub fn disagreements(&self) -> Vec<Disagreement> {
                let mut out = Vec::new();
                $(self.$field.disagreements(Kind::$kind, &mut out);)*
                out
            }

            /// The tactics in force, as they were written, by kind.
            pub fn in_force(&self) -> Vec<(Kind, &str)> {
                vec![$((Kind::$kind, self.$field.name()),)*]
            }
        }
    };
}

/// Two tactics of one kind, or one tactic twice.
fn two_of(kind: Kind, first: String, second: String) -> TacticError {
    if first == second {
        return TacticError::Repeated(first);
    }
    TacticError::Twice { kind, first, second }
}

fn stranger(spec: &PolicySpec, asker: &'static str) -> TacticError {
    let kind = spec.entry.tactic_kind().expect("it was built as a tactic");
    TacticError::Stranger { label: spec.label.clone(), kind, asker }
}

tactics_of!(
    /// Tactics of a volume group.
    VolumeTactics, "a volume", {
        /// The pool of a new chunk.
        allocation: Allocation, Allocation;
        /// The copy that answers a read.
        replica: Replica, Replica;
        /// The load from which on a hinted write is redirected.
        redirection: Redirection, Redirection;
        /// Probes of full devices.
        probing: Probing, Probing;
        /// Copies beside clients.
        yielding: Yielding, Yielding;
        /// The rate of copies under SLAs.
        copy_rate: CopyRate, CopyRate;
        /// Parts of moves that come first.
        trial: Trial, TrialRule;
        /// Room that a pool keeps free rather than old copies.
        retention: Retention, Retention;
    }
);

tactics_of!(
    /// Tactics of a balancer's dispatcher.
    BalancerTactics, "a balancer", {
        /// Servers that are left alone.
        ejection: Ejection, Ejection;
        /// Retries of failed requests.
        retries: Retries, RetryRule;
        /// Shares of servers that come back.
        slow_start: SlowStart, ShareRule;
    }
);

tactics_of!(
    /// Tactics of a store of de-duplicated volumes.
    StoreTactics, "a store", {
        /// The segment that is cleaned next.
        cleaning: Cleaning, Cleaning;
    }
);

tactics_of!(
    /// Tactics of a block cache.
    CacheTactics, "a block cache", {
        /// Dirty lines that go back to the slow device.
        write_back: WriteBack, WriteBack;
    }
);
