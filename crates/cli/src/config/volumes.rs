//! From TOML to what a configuration says of volumes. docs/formats/configuration.md tells every
//! key.

use super::VolumeConfig;
use super::keys::{At, ConfigError, Keys};
use thermocline_policy::placement::{Sla, SlaClass};
use thermocline_ports::SECTOR;
use thermocline_units::{Bytes, Nanos};
use thermocline_volume::settings::VOLUMES_MAX;
use thermocline_volume::{AdminError, is_volume_name};

/// Reads the tables `[[volume]]`, at least one.
pub(super) fn volumes(keys: &mut Keys<'_>) -> Result<Vec<VolumeConfig>, ConfigError> {
    let mut volumes: Vec<VolumeConfig> = Vec::new();
    for mut table in keys.tables("volume")? {
        let (name, named) = name(&mut table, volumes.len())?;
        if volumes.iter().any(|other| other.name == name.value) {
            let problem = format!("two volumes are called `{}`", name.value);
            return Err(table.file.problem(name.line, problem));
        }
        let wanted = "a multiple of 512 bytes above 0, such as \"100GiB\"";
        let size = table.quantity("size", wanted, |size| is_whole(size) && size.0 > 0)?;
        let size =
            size.ok_or_else(|| table.problem(format!("`size` is missing; it is {wanted}")))?;
        let sla = sla(&mut table)?;
        volumes.push(VolumeConfig { name: name.value, named, size: size.value, sla });
        if volumes.len() > VOLUMES_MAX {
            return Err(table.problem(format!("there are more than {VOLUMES_MAX} volumes")));
        }
        table.finish()?;
    }
    Ok(volumes)
}

/// The name of the volume at a place in the list, and whether it is written there.
fn name(table: &mut Keys<'_>, place: usize) -> Result<(At<String>, bool), ConfigError> {
    match table.text("name")? {
        Some(name) if is_volume_name(&name.value) => Ok((name, true)),
        Some(At { value, line }) => Err(table.file.problem(line, AdminError::VolumeName(value))),
        None => Ok((At { value: format!("v{place}"), line: table.line }, false)),
    }
}

/// Reads the SLA of a volume.
fn sla(keys: &mut Keys<'_>) -> Result<Option<Sla>, ConfigError> {
    let wanted = "a time above 0, such as \"20ms\"";
    let latency = keys.quantity("latency", wanted, |latency: &Nanos| latency.0 > 0)?;
    let class = match keys.text("class")? {
        None => None,
        Some(At { value, line }) => {
            let class = SlaClass::named(&value);
            let wrong = "`class` must be \"strict\" or \"loose\": how the SLA ranks";
            Some((class.ok_or_else(|| keys.file.problem(line, wrong))?, line))
        }
    };
    match (latency, class) {
        (Some(latency), class) => {
            let class = class.map_or(SlaClass::default(), |(class, _)| class);
            Ok(Some(Sla { latency: latency.value, class }))
        }
        (None, Some((_, line))) => {
            Err(keys.file.problem(line, "a `class` needs a `latency`: what the SLA guarantees"))
        }
        (None, None) => Ok(None),
    }
}

fn is_whole(size: &Bytes) -> bool {
    size.0.is_multiple_of(u64::from(SECTOR))
}
