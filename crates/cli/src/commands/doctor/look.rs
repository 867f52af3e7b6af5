//! The checks, one function each. What is read from the system is judged by functions of their own,
//! which the tests give other systems' answers.

use super::Check;
use rustix::fs::{Mode, OFlags};
use rustix::process::{Resource, getrlimit};
use std::fs::read_to_string;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use thermocline_charts::format;
use thermocline_filehints::file_events::FileEvents;
use thermocline_ports_os::{FileDevice, OpenOptions};

/// Kernel of which the manual pages first promise all that the engine asks of io_uring.
const KERNEL_MIN: (u32, u32) = (5, 11);
/// The first kernel in which memory of rings does not count as locked memory.
const KERNEL_WITHOUT_MEMLOCK: (u32, u32) = (5, 12);
/// Locked memory that rings of some pools need on older kernels, bytes.
const MEMLOCK_MIN: u64 = 64 << 20;
/// Open files that a thousand clients need.
const NOFILE_MIN: u64 = 4096;
/// Free space below which a demonstration does not fit, bytes.
const FREE_MIN: u64 = 1 << 30;
/// Memory below which the engine's buffers crowd out the rest, bytes.
const MEMORY_MIN: u64 = 512 << 20;
/// Readings of the clock that are timed.
const READINGS: u32 = 10_000;
/// Time of one reading of a clock that is read without a system call, nanoseconds.
const READING_MAX_NS: f64 = 500.0;
/// 2025-01-01: no machine that runs this program lives before it.
const YEAR_2025_S: u64 = 1_735_689_600;
/// Bytes of the file that is tried.
const TRIAL_BYTES: u64 = 1 << 20;

/// Kernel modules: name, what they are for.
const MODULES: [(&str, &str, &str); 4] = [
    ("module nbd", "nbd", "volumes as /dev/nbd0 on this machine, with nbd-client"),
    ("module ublk", "ublk_drv", "nothing yet: a later front for volumes"),
    ("module loop", "loop", "image files as block devices, for trying out"),
    ("module fuse", "fuse", "mounting NBD exports without root, with nbdfuse"),
];

/// All checks, the most important first.
pub(super) fn all(folder: &Path) -> Vec<Check> {
    let release = read("/proc/sys/kernel/osrelease");
    let mut checks = vec![
        kernel(&release),
        io_uring(folder),
        direct(folder),
        free_space(folder),
        memory(&read("/proc/meminfo")),
        open_files(getrlimit(Resource::Nofile).maximum),
        memlock(getrlimit(Resource::Memlock).current, &release),
        clock_source(&read("/sys/devices/system/clocksource/clocksource0/current_clocksource")),
        date(),
    ];
    for (name, module, needed_for) in MODULES {
        checks.push(kernel_module(name, module, needed_for, &release));
    }
    checks.push(program("nbd-client", "volumes as /dev/nbd0 on this machine", "nbd-client"));
    checks.push(program("nbdcopy", "copying volumes from and to other servers", "libnbd-bin"));
    checks.push(fanotify());
    checks.push(tun());
    checks
}

/// A file of the kernel, without blanks around; empty when it is not there.
fn read(path: &str) -> String {
    read_to_string(path).unwrap_or_default().trim().to_string()
}

/// The first two numbers of a release such as `6.1.0-13-amd64`.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

pub(super) fn kernel(release: &str) -> Check {
    let check = Check::ok("kernel", "everything", format!("Linux {release}"));
    let (major, minor) = KERNEL_MIN;
    match version(release) {
        Some(version) if version >= KERNEL_MIN => check,
        Some(_) => check.noted(format!("older than {major}.{minor}: upgrade, or try and see")),
        None => check.noted(format!("unknown release; {major}.{minor} or newer is known to work")),
    }
}

/// Opens a file through io_uring, as the engine does.
fn io_uring(folder: &Path) -> Check {
    let check = Check::ok("io_uring", "pools on files and devices", "works");
    let trial = match Trial::new(folder) {
        Ok(trial) => trial,
        Err(error) => {
            let found = format!("not tried: {}: {error}", folder.display());
            return Check { found, ..check }.noted("name a folder that you may write to");
        }
    };
    match FileDevice::open(&trial.0, OpenOptions::default()) {
        Ok(_) => check,
        Err(error) => {
            let disabled = read("/proc/sys/kernel/io_uring_disabled");
            let advice = match disabled.as_str() {
                "1" | "2" => "switched off: `sysctl kernel.io_uring_disabled=0` as root",
                _ => {
                    "a container's seccomp profile may forbid io_uring_setup (Docker: \
                     `--security-opt seccomp=unconfined`), or the kernel lacks CONFIG_IO_URING"
                }
            };
            Check { found: error.to_string(), ..check }.missing(advice)
        }
    }
}

/// A file of our own that goes away.
struct Trial(PathBuf);

impl Trial {
    fn new(folder: &Path) -> std::io::Result<Trial> {
        let path = folder.join(format!(".thermocline-doctor-{}", std::process::id()));
        let mut options = std::fs::File::options();
        let file = options.write(true).create_new(true).open(&path)?;
        let trial = Trial(path);
        file.set_len(TRIAL_BYTES)?;
        Ok(trial)
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0); // nothing is told of a file that is ours
    }
}

/// Tries to open a file around the page cache.
fn direct(folder: &Path) -> Check {
    let check = Check::ok("direct I/O", "pools on files without the page cache", "works here");
    let Ok(trial) = Trial::new(folder) else {
        return Check { found: "not tried".into(), ..check }.noted("see io_uring above");
    };
    let flags = OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC;
    match rustix::fs::open(&trial.0, flags, Mode::empty()) {
        Ok(_) => check,
        Err(error) => Check { found: format!("{error}"), ..check }
            .noted("this file system has none: pools here go through the page cache"),
    }
}

fn free_space(folder: &Path) -> Check {
    let check = Check::ok("free space", "pools on files", "");
    match rustix::fs::statvfs(folder) {
        Ok(stat) => {
            let free = stat.f_bavail.saturating_mul(stat.f_frsize);
            let found = format!("{} in {}", format::bytes(free as f64), folder.display());
            let check = Check { found, ..check };
            if free >= FREE_MIN { check } else { check.noted("make room, or name another folder") }
        }
        Err(error) => Check { found: error.to_string(), ..check }.noted("name another folder"),
    }
}

pub(super) fn memory(meminfo: &str) -> Check {
    let available = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = available.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    let check = Check::ok("memory", "buffers of clients, maps, policies", "");
    match kib.map(|kib| kib << 10) {
        Some(bytes) => {
            let check = Check { found: format!("{} free", format::bytes(bytes as f64)), ..check };
            if bytes >= MEMORY_MIN {
                check
            } else {
                check.noted(
                    "free some, or lower the memory of clients: docs/formats/configuration.md",
                )
            }
        }
        None => Check { found: "unknown".into(), ..check },
    }
}

pub(super) fn open_files(most: Option<u64>) -> Check {
    let found = most.map_or("unlimited".to_string(), |most| format!("at most {most}"));
    let check = Check::ok("open files", "many clients", found);
    match most {
        Some(most) if most < NOFILE_MIN => check.noted(format!(
            "raise the hard limit: `ulimit -Hn {NOFILE_MIN}`, or LimitNOFILE= in the unit"
        )),
        _ => check,
    }
}

pub(super) fn memlock(limit: Option<u64>, release: &str) -> Check {
    let found = limit.map_or("unlimited".into(), |limit| format::bytes(limit as f64));
    let check = Check::ok("locked memory", "io_uring on kernels before 5.12", found);
    let counts = version(release).is_none_or(|version| version < KERNEL_WITHOUT_MEMLOCK);
    match limit {
        Some(limit) if counts && limit < MEMLOCK_MIN => {
            check.noted("raise it: `ulimit -l 65536`, or LimitMEMLOCK=64M in the unit")
        }
        _ => check,
    }
}

fn clock_source(name: &str) -> Check {
    let started = Instant::now();
    for _ in 0..READINGS {
        std::hint::black_box(Instant::now());
    }
    let each = started.elapsed().as_nanos() as f64 / f64::from(READINGS);
    clock(name, each)
}

pub(super) fn clock(name: &str, reading_ns: f64) -> Check {
    let name = if name.is_empty() { "unknown" } else { name };
    let found = format!("{name}, {reading_ns:.0} ns a reading");
    let check = Check::ok("clock", "latencies and rates of every request", found);
    if reading_ns <= READING_MAX_NS {
        return check;
    }
    check.noted(
        "slow to read, so each request costs more; other sources stand in \
         /sys/devices/system/clocksource/clocksource0/available_clocksource",
    )
}

fn date() -> Check {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let check = Check::ok("date", "certificates, names of events", "plausible");
    if now >= YEAR_2025_S {
        return check;
    }
    Check { found: "before 2025".into(), ..check }.noted("set the clock: certificates are refused")
}

/// Loaded, built in, there to be loaded, or not there.
fn kernel_module(
    name: &'static str,
    module: &str,
    needed_for: &'static str,
    release: &str,
) -> Check {
    let folder = PathBuf::from("/lib/modules").join(release);
    let listed = |file: &str| {
        let text = read_to_string(folder.join(file)).unwrap_or_default();
        is_listed(&text, module)
    };
    let check = |found: &str| Check::ok(name, needed_for, found);
    if Path::new("/sys/module").join(module).exists() {
        check("loaded")
    } else if listed("modules.builtin") {
        check("built into the kernel")
    } else if listed("modules.dep") {
        check("not loaded").noted(format!("`modprobe {module}` as root"))
    } else {
        check("not there").noted("this kernel has none: another kernel, or do without")
    }
}

/// True if a list of modules names this one, compressed or not.
pub(super) fn is_listed(list: &str, module: &str) -> bool {
    list.lines().any(|line| {
        let file = line.split(':').next().unwrap_or_default().rsplit('/').next();
        file.is_some_and(|file| file.split('.').next() == Some(module))
    })
}

fn program(name: &'static str, needed_for: &'static str, package: &str) -> Check {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    let found = folders.map(|folder| folder.join(name)).find(|path| path.is_file());
    match found {
        Some(path) => Check::ok(name, needed_for, path.display().to_string()),
        None => Check::ok(name, needed_for, "not there")
            .noted(format!("Debian, Ubuntu: `apt install {package}`")),
    }
}

/// Tries to see who opens files of the root.
fn fanotify() -> Check {
    let check = Check::ok("fanotify", "`thermocline hint watch`, which sees files", "works");
    match FileEvents::new(Path::new("/")) {
        Ok(_) => check,
        Err(error) => Check { found: error.to_string(), ..check }
            .noted("needs CAP_SYS_ADMIN (root, outside of containers); advice needs none"),
    }
}

fn tun() -> Check {
    let check = Check::ok("TUN", "the transparent tunnel's tests; no pool needs it", "there");
    if Path::new("/dev/net/tun").exists() {
        return check;
    }
    Check { found: "no /dev/net/tun".into(), ..check }.noted("`modprobe tun` as root")
}
