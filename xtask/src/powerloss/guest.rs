//! A guest of user-mode Linux whose root is made here: busybox, nbd-client, a module of its kernel,
//! the engine and this program, each with its libraries, in one initramfs. Of the machine it sees
//! one folder, for what it leaves.
//!
//! Source of the archive's format: Documentation/driver-api/early-userspace/buffer-format.rst.

use super::{DEVICES, Wish};
use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Folder in which Debian's kernel for user mode keeps its modules.
const MODULES: &str = "/usr/lib/uml/modules";
/// The one that it needs.
const MODULE: &str = "kernel/drivers/block/nbd.ko";
/// A guest that takes longer has hung.
const PATIENCE: Duration = Duration::from_secs(600);
const LOOK: Duration = Duration::from_millis(20);

/// Tools that the machine has for it.
pub(super) struct Tools {
    kernel: PathBuf,
    busybox: PathBuf,
    client: PathBuf,
    module: PathBuf,
}

/// The tools, or what is missing.
pub(super) fn tools() -> Result<Tools, String> {
    let program = |name: &str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
        folders.extend(["/usr/sbin", "/sbin"].map(PathBuf::from));
        let found = folders.into_iter().map(|folder| folder.join(name)).find(|at| at.is_file());
        found.ok_or_else(|| format!("{name} is missing"))
    };
    let (kernel, busybox, client) =
        (program("linux.uml")?, program("busybox")?, program("nbd-client")?);
    let versions = std::fs::read_dir(MODULES).map_err(|e| format!("{MODULES}: {e}"))?;
    let newest = versions.filter_map(|entry| Some(entry.ok()?.path())).max();
    let module = newest.ok_or_else(|| format!("{MODULES} is empty"))?.join(MODULE);
    match module.is_file() {
        true => Ok(Tools { kernel, busybox, client, module }),
        false => Err(format!("{} is missing", module.display())),
    }
}

/// The first process. Whatever fails shows in the file `outcome`, which has no `ok` then.
fn init(wish: &Wish, out: &Path) -> String {
    format!(
        "#!/bin/busybox sh
export PATH=/bin
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs run /run
mount -t hostfs none /out -o '{}'
{{
set -e
insmod /lib/nbd.ko nbds_max={}
xtask powerloss --inside --seed {} --requests {} --folder /out{}
sync
echo ok
}} >/out/outcome 2>&1
poweroff -f
",
        out.display(),
        DEVICES.len(),
        wish.seed,
        wish.requests,
        if wish.no_flush { " --no-flush" } else { "" }
    )
}

/// End of a guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// `out/log` and `out/record` are there.
    Done,
    /// A guest that never came to its first process: this machine does not let such kernels run.
    NotStarted(String),
}

/// Runs the guest in this folder to its end.
pub(super) fn run(tools: &Tools, wish: &Wish, binary: &Path, folder: &Path) -> Result<End, String> {
    let out = folder.join("out");
    let failed = |what: &str| format!("{}: {what}", folder.display());
    let _ = std::fs::remove_dir_all(folder); // It need not be there.
    std::fs::create_dir_all(&out).map_err(|e| failed(&e.to_string()))?;
    std::fs::create_dir_all(folder.join("uml")).map_err(|e| failed(&e.to_string()))?;
    let root = root(tools, wish, binary, &out)?;
    std::fs::write(folder.join("initrd"), root).map_err(|e| failed(&e.to_string()))?;
    boot(tools, folder)?;
    let Ok(outcome) = std::fs::read_to_string(out.join("outcome")) else {
        let console = std::fs::read_to_string(folder.join("console")).unwrap_or_default();
        return Ok(End::NotStarted(
            console.lines().last().unwrap_or("it says nothing").to_string(),
        ));
    };
    match outcome.lines().last() {
        Some("ok") => Ok(End::Done),
        _ => Err(format!("the guest ended with: {outcome}; its console is in {}", failed(""))),
    }
}

/// Starts the kernel and waits until it has halted. Paths are short: one becomes a socket.
fn boot(tools: &Tools, folder: &Path) -> Result<(), String> {
    let console = File::create(folder.join("console")).map_err(|e| e.to_string())?;
    let errors = console.try_clone().map_err(|e| e.to_string())?;
    let words = "mem=512M initrd=initrd con=null con0=null,fd:1 con1=null \
                 umid=guest uml_dir=uml/ quiet panic=1";
    let mut command = Command::new(&tools.kernel);
    command.args(words.split_whitespace()).current_dir(folder).process_group(0);
    command.stdin(Stdio::null()).stdout(console).stderr(errors);
    let mut child = command.spawn().map_err(|e| format!("{}: {e}", tools.kernel.display()))?;
    let begin = Instant::now();
    loop {
        // Its exit status says little: a halt has had several.
        if child.try_wait().map_err(|e| e.to_string())?.is_some() {
            return Ok(());
        }
        if begin.elapsed() > PATIENCE {
            // It has processes of its own.
            let group = format!("-{}", child.id());
            let _ = Command::new("kill").args(["-9", "--", &group]).status();
            let _ = child.wait();
            return Err(format!("the guest does not end in {PATIENCE:?}"));
        }
        std::thread::sleep(LOOK);
    }
}

/// The archive of the root.
fn root(tools: &Tools, wish: &Wish, binary: &Path, out: &Path) -> Result<Vec<u8>, String> {
    let mut archive = Archive::default();
    let own = std::env::current_exe().map_err(|e| e.to_string())?;
    let programs =
        [("busybox", &*tools.busybox), ("nbd-client", &*tools.client), ("thermocline", binary)];
    let programs = programs.into_iter().chain([("xtask", own.as_path())]);
    for folder in ["bin", "dev", "lib", "out", "proc", "run", "sys", "tmp"] {
        archive.folder(folder);
    }
    let mut libraries = BTreeSet::new();
    for (name, path) in programs {
        archive.file(&format!("bin/{name}"), &stripped(path)?);
        libraries.extend(libraries_of(path)?);
    }
    for library in libraries {
        let bytes = std::fs::read(&library).map_err(|e| format!("{library}: {e}"))?;
        archive.file(library.trim_start_matches('/'), &bytes);
    }
    let module = std::fs::read(&tools.module);
    archive.file("lib/nbd.ko", &module.map_err(|e| format!("{}: {e}", tools.module.display()))?);
    let config = super::config(wish.seed, |number, _| format!("/dev/nbd{number}"));
    archive.file("engine.toml", config.as_bytes());
    archive.file("init", init(wish, out).as_bytes());
    Ok(archive.end())
}

/// A program without what only a debugger wants, or as it is where there is no `strip`: the guest
/// keeps it in memory.
fn stripped(path: &Path) -> Result<Vec<u8>, String> {
    let output = Command::new("strip").args(["-o", "/dev/stdout"]).arg(path).output();
    match output {
        Ok(output) if output.status.success() && output.stdout.starts_with(b"\x7fELF") => {
            Ok(output.stdout)
        }
        _ => std::fs::read(path).map_err(|e| format!("{}: {e}", path.display())),
    }
}

/// Absolute paths of what a program is linked with; none of a static one.
fn libraries_of(program: &Path) -> Result<Vec<String>, String> {
    let output = Command::new("ldd").arg(program).output().map_err(|e| format!("ldd: {e}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(text.split_whitespace().filter(|word| word.starts_with('/')).map(str::to_string).collect())
}

/// An archive in the format of cpio that kernels unpack.
#[derive(Default)]
struct Archive {
    bytes: Vec<u8>,
    folders: BTreeSet<String>,
    count: u32,
}

impl Archive {
    /// Adds a folder, with those around it.
    fn folder(&mut self, name: &str) {
        if let Some((around, _)) = name.rsplit_once('/') {
            self.folder(around);
        }
        if self.folders.insert(name.to_string()) {
            self.put(name, 0o040_755, &[]);
        }
    }

    /// A file that anybody may run.
    fn file(&mut self, name: &str, contents: &[u8]) {
        if let Some((folder, _)) = name.rsplit_once('/') {
            self.folder(folder);
        }
        self.put(name, 0o100_755, contents);
    }

    fn end(mut self) -> Vec<u8> {
        self.put("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn put(&mut self, name: &str, mode: u32, contents: &[u8]) {
        self.count += 1;
        let (length, name_length) = (contents.len() as u32, name.len() as u32 + 1);
        self.bytes.extend(b"070701");
        for word in [self.count, mode, 0, 0, 1, 0, length, 0, 0, 0, 0, name_length, 0] {
            self.bytes.extend(format!("{word:08x}").bytes());
        }
        self.bytes.extend(name.bytes().chain([0]));
        self.pad();
        self.bytes.extend(contents);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}
