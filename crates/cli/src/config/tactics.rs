//! The key `tactics`, of every machine that asks some, and `tactic-shadows`, of engines and of load
//! balancers.

use super::keys::{ConfigError, Keys};
use thermocline_policy::registry::PolicySpec;
use thermocline_policy::tactics::TacticError;

/// The tactics in force, and their shadows; the functions are those of the machine's tactics.
///
/// # Errors
/// When a text names no tactic of the machine, or two in force are of one kind.
pub(super) fn read<T>(
    keys: &mut Keys<'_>,
    of: fn(&[&str]) -> Result<T, TacticError>,
    parse: fn(&str) -> Result<PolicySpec, TacticError>,
    follow: fn(&mut T, &PolicySpec) -> Result<(), TacticError>,
) -> Result<T, ConfigError> {
    let mut tactics = in_force(keys, of)?;
    for shadow in keys.texts("tactic-shadows")? {
        let followed = parse(&shadow.value).and_then(|spec| follow(&mut tactics, &spec));
        followed.map_err(|error| keys.file.problem(shadow.line, error))?;
    }
    Ok(tactics)
}

/// The tactics in force.
///
/// # Errors
/// When a text names no tactic of the machine, or two are of one kind.
pub(super) fn in_force<T>(
    keys: &mut Keys<'_>,
    of: fn(&[&str]) -> Result<T, TacticError>,
) -> Result<T, ConfigError> {
    let chosen = keys.texts("tactics")?;
    let texts: Vec<&str> = chosen.iter().map(|text| &*text.value).collect();
    let mut tactics = of(&[]).map_err(|error| keys.problem(error))?;
    for (count, text) in (1..).zip(&chosen) {
        tactics = of(&texts[..count]).map_err(|error| keys.file.problem(text.line, error))?;
    }
    Ok(tactics)
}
