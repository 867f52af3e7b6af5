//! Lets power fail at many points of a log: the pools as they would be then are checked, opened by
//! the engine and read back, and compared with what the record says.
//!
//! Points are drawn from all that are behind the first mark; what becomes of writes that no flush
//! has covered is drawn for each.

use super::log::{Devices, Entry, Kind, Log, Point, Rest};
use super::record::Witness;
use super::{DEVICES, VOLUME, Wish};
use crate::torture::engine::Site;
use crate::torture::ledger::Dice;
use crate::torture::load;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Actions and findings.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) entries: usize,
    pub(super) flushes: usize,
    pub(super) marks: usize,
    pub(super) points: usize,
    pub(super) compared: u64,
    /// Points at which something was wrong, with what.
    pub(super) wrong: Vec<(Point, String)>,
}

/// All of a run that `guest` left in this folder.
pub(super) fn run(wish: &Wish, binary: &Path, folder: &Path) -> Result<Found, String> {
    let log = Log::open(&folder.join("out").join("log"))?;
    let text = std::fs::read_to_string(folder.join("out").join("record"));
    let text = text.map_err(|e| format!("the record: {e}"))?;
    let mut witness = Witness::new(wish.seed, VOLUME, &text)?;
    let marks: Vec<(usize, u64)> = log.entries.iter().enumerate().filter_map(mark).collect();
    let recorded = text.lines().filter(|line| line.starts_with("mark ")).count();
    if marks.len() != recorded {
        return Err(format!("the record has {recorded} marks, the log {}", marks.len()));
    }
    let points = points(&log, wish);
    let config = super::config(wish.seed, |_, name| format!("{name}.pool"));
    let site = Site::new(binary, folder.join("replay"), &config)?;
    let mut devices = Devices::new(&log, &DEVICES.map(|(_, mib)| mib << 20), wish.forgets);
    let mut found = Found {
        entries: log.entries.len(),
        flushes: log.entries.iter().filter(|(entry, _)| entry.kind == Kind::Flush).count(),
        marks: recorded,
        ..Found::default()
    };
    for point in points {
        let mark = marks[..marks.partition_point(|(at, _)| *at < point.entries)].last();
        let Some((_, mark)) = mark else { continue };
        let ledger = witness.at(*mark).ok_or_else(|| format!("mark {mark} is not there"))?;
        let images = devices.at(point)?;
        found.points += 1;
        let ledger = Arc::new(Mutex::new(ledger));
        if let Err(error) = verify(&site, &images, &ledger) {
            println!("{point:?}, mark {mark}: {error}");
            keep(folder, &site, &images, found.wrong.len())?;
            found.wrong.push((point, error));
        }
        found.compared += load::lock(&ledger).compared * 512;
    }
    found.wrong.extend(witness.flaws.iter().map(|flaw| {
        let point = Point { entries: 0, rest: Rest::Kept };
        (point, format!("after a kill in the guest: {flaw}"))
    }));
    Ok(found)
}

/// An entry that is a mark: where, and its number.
fn mark((at, (entry, _)): (usize, &(Entry, u64))) -> Option<(usize, u64)> {
    (entry.kind == Kind::Mark).then_some((at, entry.sector))
}

/// Points in their order; as many as are asked for, by chance.
fn points(log: &Log, wish: &Wish) -> Vec<Point> {
    let first = log.entries.iter().position(|(entry, _)| entry.kind == Kind::Mark);
    let first = first.unwrap_or(log.entries.len());
    let mut dice = Dice::new(wish.seed ^ 0x706f_6965);
    let mut points: Vec<Point> = (first + 1..=log.entries.len())
        .map(|entries| {
            let seed = dice.next();
            let rest = match dice.below(4) {
                0 => Rest::Lost,
                1 => Rest::Kept,
                2 => Rest::ByWrites(seed),
                _ => Rest::BySectors(seed),
            };
            Point { entries, rest }
        })
        .collect();
    // Shuffled, cut, and put in order again (Fisher and Yates 1938).
    for at in (1..points.len()).rev() {
        points.swap(at, dice.below(at as u64 + 1) as usize);
    }
    points.truncate(wish.points);
    points.sort();
    points
}

/// One failure of power, on pools that are made anew.
fn verify(site: &Site, images: &[Vec<u8>], ledger: &load::Shared) -> Result<(), String> {
    put(site, images)?;
    site.expect("check engine.toml --scrub")?;
    let engine = site.start("")?;
    let flaws = load::read_back(site, ledger)?;
    let status = engine.stop()?;
    if let Some(flaw) = flaws.first() {
        return Err(format!("{} sectors are wrong, the first: {flaw}", flaws.len()));
    }
    match status.success() {
        true => site.check(),
        false => Err(format!("a stop ended with {status}: {}", site.log())),
    }
}

/// The pools as files.
fn put(site: &Site, images: &[Vec<u8>]) -> Result<(), String> {
    let folder = site.path("");
    let _ = std::fs::remove_dir_all(&folder); // It need not be there.
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    for ((name, _), image) in DEVICES.iter().zip(images) {
        let at = site.path(&format!("{name}.pool"));
        std::fs::write(&at, image).map_err(|e| format!("{}: {e}", at.display()))?;
    }
    Ok(())
}

/// Puts the pools of the first findings aside, as they were when power failed.
fn keep(folder: &Path, site: &Site, images: &[Vec<u8>], number: usize) -> Result<(), String> {
    if number >= 3 {
        return Ok(());
    }
    put(site, images)?;
    let kept = folder.join(format!("finding-{number}"));
    let _ = std::fs::remove_dir_all(&kept); // It need not be there.
    std::fs::rename(site.path(""), &kept).map_err(|e| format!("{}: {e}", kept.display()))
}
