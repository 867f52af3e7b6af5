//! Program in the guest: the devices, the engine on them, and a client that records what it sent
//! and what was answered, and marks the log of the devices between.
//!
//! The client is one thread with two connections. Batches of requests are sent on both before
//! answers are taken, and marks are made while requests are under way. The engine is killed between
//! sessions, started again, and the volume is read back: what was read then has to stay.

use super::device::{Device, Shared};
use super::log::Writer;
use super::record::Event;
use super::{DEVICES, VOLUME, Wish};
use crate::torture::engine::{Engine, Site};
use crate::torture::ledger::{Change, Dice, Ledger};
use crate::torture::load::{change, draw_range};
use crate::torture::nbd::{Ask, Client};
use std::collections::BTreeMap;
use std::ops::Range;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Times that the engine is started.
const SESSIONS: u64 = 3;
/// Requests under way on a connection, at most.
const DEPTH: usize = 12;
/// Bytes read at a time when the volume is read back.
const READ_BACK: u64 = 1 << 20;

/// A request under way; `number`: of a change; of a flush, what it covers.
struct Sent {
    ask: Ask,
    range: Range<u64>,
    number: u64,
}

struct Connection {
    client: Client,
    under_way: BTreeMap<u64, Sent>,
}

struct Driver {
    ledger: Ledger,
    dice: Dice,
    events: Vec<Event>,
    marks: u64,
    cookie: u64,
    site: Site,
    log: Shared,
}

/// The whole of it; the record is left in `out`, also when something is wrong.
pub(super) fn run(wish: &Wish, out: &Path) -> Result<(), String> {
    let log = Writer::create(&out.join("log")).map_err(|e| format!("the log: {e}"))?;
    let log = Shared::new(log);
    for (number, (name, mib)) in DEVICES.iter().enumerate() {
        let device = Device::new(number as u8, mib << 20, log.clone(), wish.seed);
        let device = if wish.no_flush { device.without_flush() } else { device };
        attach(device, number, name)?;
    }
    let config =
        std::fs::read_to_string("/engine.toml").map_err(|e| format!("engine.toml: {e}"))?;
    let site = Site::new(Path::new("/bin/thermocline"), PathBuf::from("/run/power"), &config)?;
    let mut driver = Driver {
        ledger: Ledger::new(wish.seed, VOLUME),
        dice: Dice::new(wish.seed),
        events: Vec::new(),
        marks: 0,
        cookie: 0,
        site: site.clone(),
        log: log.clone(),
    };
    let outcome = driver.sessions(wish.requests);
    let lines: Vec<String> = driver.events.iter().map(Event::line).collect();
    log.end().map_err(|e| format!("the log: {e}"))?;
    std::fs::write(out.join("record"), lines.join("\n")).map_err(|e| format!("record: {e}"))?;
    outcome.map_err(|e| format!("{e}\n{}", site.log()))
}

/// Gives a device to the guest's kernel.
fn attach(device: Device, number: usize, name: &str) -> Result<(), String> {
    let socket = PathBuf::from(format!("/run/{name}.sock"));
    let listener = UnixListener::bind(&socket).map_err(|e| format!("{name}: {e}"))?;
    std::thread::spawn(move || {
        if let Err(error) = device.serve(&listener) {
            eprintln!("device {number}: {error}");
            // Whoever waits for the device would wait for ever.
            std::process::exit(1);
        }
    });
    let mut command = Command::new("nbd-client");
    command.args(["-unix".as_ref(), socket.as_os_str()]).arg(format!("/dev/nbd{number}"));
    command.args(["-N", name, "-b", "512", "-C", "1"]);
    let output = command.output().map_err(|e| format!("nbd-client: {e}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    output.status.success().then_some(()).ok_or_else(|| format!("nbd-client: {said}"))
}

impl Driver {
    fn sessions(&mut self, requests: u64) -> Result<(), String> {
        for session in 0..SESSIONS {
            let engine = self.site.start("")?;
            if session > 0 {
                self.read_back()?;
            }
            self.mark()?;
            self.session(requests / SESSIONS)?;
            self.end(engine, session + 1 == SESSIONS)?;
        }
        self.mark()
    }

    /// The last end is in order, the others are not.
    fn end(&mut self, engine: Engine, in_order: bool) -> Result<(), String> {
        if in_order {
            let status = engine.stop()?;
            if !status.success() {
                return Err(format!("a stop ended with {status}"));
            }
        } else {
            engine.kill()?;
        }
        self.ledger.ended(in_order);
        self.events.push(Event::Ended(in_order));
        Ok(())
    }

    fn session(&mut self, requests: u64) -> Result<(), String> {
        let connect = || Client::connect(&self.site.socket(), "v0");
        let clients = [connect(), connect()].map(|client| {
            let client = client.map_err(|e| format!("connecting: {e}"))?;
            Ok::<_, String>(Connection { client, under_way: BTreeMap::new() })
        });
        let [first, second] = clients;
        let mut clients = [first?, second?];
        let mut mover: Option<Child> = None;
        let last = self.cookie + requests;
        while self.cookie < last {
            for client in &mut clients {
                self.send_some(client)?;
            }
            self.mark()?;
            for client in &mut clients {
                let count = self.dice.below(client.under_way.len() as u64 + 1);
                for _ in 0..count {
                    self.take_answer(client)?;
                }
                self.mark()?;
            }
            let idle = mover.as_mut().is_none_or(|child| !matches!(child.try_wait(), Ok(None)));
            if idle && self.dice.below(6) == 0 {
                mover = Some(self.move_something()?);
            }
        }
        if let Some(mut mover) = mover {
            mover.wait().map_err(|e| format!("migrate: {e}"))?;
        }
        Ok(())
    }

    /// Moves, copies and redirections; what the engine has no room for it refuses.
    fn move_something(&mut self) -> Result<Child, String> {
        let to = ["fast", "slow"][self.dice.below(2) as usize];
        let (at, length) = (self.dice.below(VOLUME >> 20) << 20, 64 << 10 << self.dice.below(4));
        let how = ["", "", " --do replicate", " --do redirect"][self.dice.below(4) as usize];
        let words =
            format!("migrate v0 --data pools --offset {at}B --length {length}B --to {to}{how}");
        let mut command = Command::new(&self.site.binary);
        command.args(words.split(' ')).current_dir(&self.site.folder).stdin(Stdio::null());
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        child.map_err(|e| format!("migrate: {e}"))
    }

    fn send_some(&mut self, client: &mut Connection) -> Result<(), String> {
        for _ in 0..1 + self.dice.below(6) {
            if client.under_way.len() >= DEPTH {
                return Ok(());
            }
            let Some((request, contents)) = self.draw() else { continue };
            let Range { start, end } = request.range;
            let place = (start * 512, ((end - start) * 512) as u32);
            let sent = client.client.send(self.cookie, request.ask, place, &contents);
            sent.map_err(|e| format!("{:?}: {e}", request.ask))?;
            client.under_way.insert(self.cookie, request);
            self.cookie += 1;
        }
        Ok(())
    }

    /// The next request and its contents; none when its range is in use.
    fn draw(&mut self) -> Option<(Sent, Vec<u8>)> {
        let ask = match self.dice.below(100) {
            0..52 => Ask::Write,
            52..60 => Ask::WriteForced,
            60..76 => Ask::Read,
            76..90 => Ask::Flush,
            90..94 => Ask::Discard,
            94..98 => Ask::Zero,
            _ => Ask::ZeroForced,
        };
        if ask == Ask::Flush {
            let number = self.ledger.mark() as u64;
            return Some((Sent { ask, range: 0..0, number }, Vec::new()));
        }
        let range = draw_range(&mut self.dice, ask, self.ledger.sectors());
        if !self.ledger.take(&range) {
            return None;
        }
        let number = change(ask).map_or(0, |change| {
            self.events.push(Event::Sent(range.clone(), change));
            self.ledger.sent(&range, change)
        });
        let contents = match change(ask) {
            Some(Change::Written) => self.ledger.contents(&range, number),
            _ => Vec::new(),
        };
        Some((Sent { ask, range, number: u64::from(number) }, contents))
    }

    fn take_answer(&mut self, client: &mut Connection) -> Result<(), String> {
        let failed = |e: std::io::Error| format!("an answer: {e}");
        let (cookie, error) = client.client.answer().map_err(failed)?;
        let sent = client.under_way.remove(&cookie).ok_or("answered twice")?;
        let Sent { ask, range, number } = sent;
        if error != 0 {
            return Err(format!("{ask:?} of {range:?} was answered with error {error}"));
        }
        match (ask, change(ask)) {
            (Ask::Flush, _) => {
                self.ledger.flushed(number as usize);
                self.events.push(Event::Flushed(number as usize));
            }
            (_, Some(change)) => {
                let forced = matches!(ask, Ask::WriteForced | Ask::ZeroForced);
                self.ledger.done(&range, number as u32, change, forced);
                self.events.push(Event::Answered(range, number as u32, change, forced));
            }
            (_, None) => {
                let bytes = client.client.contents(((range.end - range.start) * 512) as u32);
                let flaws = self.ledger.compare(&range, &bytes.map_err(failed)?);
                self.ledger.give_back(&range);
                if let Some(flaw) = flaws.first() {
                    return Err(format!("a read in the guest: {flaw:?}"));
                }
            }
        }
        Ok(())
    }

    /// After a kill: all that is read now is what it is.
    fn read_back(&mut self) -> Result<(), String> {
        let failed = |e: std::io::Error| format!("reading back: {e}");
        let mut client = Client::connect(&self.site.socket(), "v0").map_err(failed)?;
        let mut runs: Vec<(Range<u64>, u32)> = Vec::new();
        for at in (0..VOLUME).step_by(READ_BACK as usize) {
            let bytes = client.one(Ask::Read, (at, READ_BACK as u32), &[]).map_err(failed)?;
            let bytes = bytes.map_err(|errno| format!("reading back {at}: error {errno}"))?;
            let range = at / 512..(at + READ_BACK) / 512;
            if let Some(flaw) = self.ledger.settle(&range, &bytes).first() {
                return Err(format!("after a kill in the guest: {flaw:?}"));
            }
            // The number of its write is in every sector's third word; settling has checked it.
            for (sector, bytes) in range.zip(bytes.chunks_exact(512)) {
                let write = u32::from_le_bytes(bytes[16..20].try_into().expect("four bytes"));
                match runs.last_mut() {
                    Some((run, of)) if *of == write => run.end = sector + 1,
                    _ => runs.push((sector..sector + 1, write)),
                }
            }
        }
        let events = runs.into_iter().map(|(range, write)| Event::ReadBack(range, write));
        self.events.extend(events);
        Ok(())
    }

    /// Into the record and the log; nothing is sent in between.
    fn mark(&mut self) -> Result<(), String> {
        self.log.mark(self.marks).map_err(|e| format!("the log: {e}"))?;
        self.events.push(Event::Mark(self.marks));
        self.marks += 1;
        Ok(())
    }
}
