//! A Debian package: an `ar` archive of `debian-binary`, `control.tar.xz` and `data.tar.xz`
//! (deb(5)). The tar archives are made by GNU tar and xz, the outer one here.

use super::{make_folder, output, write};
use crate::{Failure, workspace};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const UNITS: [&str; 3] =
    ["thermocline.service", "thermocline.socket", "thermocline-balance.service"];
/// Folder of the headers by which policies and placements of one's own are compiled.
pub(super) const HEADERS: &str = "usr/include/thermocline";
/// These headers.
pub(super) const INTERFACES: [&str; 2] = ["thermocline_policy.h", "thermocline_placement.h"];
pub(super) const SHELLS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/thermocline"),
    ("zsh", "usr/share/zsh/vendor-completions/_thermocline"),
    ("fish", "usr/share/fish/vendor_completions.d/thermocline.fish"),
];

/// A package to be written.
pub(super) struct Package {
    program: PathBuf,
    version: String,
    epoch: u64,
    /// The newest version of glibc that the program asks for; `None`: it is static.
    glibc: Option<(u32, u32)>,
    /// Debian's name of the processor that the program is for.
    architecture: &'static str,
    /// Level of xz.
    effort: u8,
}

impl Package {
    /// A package of `program`.
    pub(super) fn new(program: &Path, version: String, epoch: u64) -> Result<Package, Failure> {
        let headers = output(Command::new("readelf").arg("-hlW").arg(program))?;
        let headers = String::from_utf8_lossy(&headers);
        let architecture = architecture(&headers)?;
        let is_dynamic = headers.contains("INTERP");
        let symbols = output(Command::new("readelf").arg("-VW").arg(program))?;
        let glibc = is_dynamic.then(|| newest_glibc(&String::from_utf8_lossy(&symbols)));
        let program = program.to_path_buf();
        Ok(Package { program, version, epoch, glibc, architecture, effort: 6 })
    }

    /// The same, made faster, and larger.
    pub(super) fn compressed_little(self) -> Package {
        Package { effort: 0, ..self }
    }

    /// Linking of the program, for people.
    pub(super) fn linking(&self) -> String {
        match self.glibc {
            None => "static".to_string(),
            Some((major, minor)) => format!("NOT static: it needs glibc {major}.{minor} or newer"),
        }
    }

    /// Writes the package into `out`, and what it installs as an archive for other systems; the
    /// names of these files.
    pub(super) fn write(&self, out: &Path) -> Result<[String; 2], Failure> {
        let stage = out.join("stage");
        if stage.exists() {
            fs::remove_dir_all(&stage).map_err(|e| format!("{}: {e}", stage.display()))?;
        }
        let (data, control) = (stage.join("data"), stage.join("control"));
        self.fill(&data)?;
        set_modes(&data)?;
        self.control(&control, installed_kib(&data)?)?;
        let base = format!("thermocline_{}_{}", self.version, self.architecture);
        let (name, tar) = (format!("{base}.deb"), format!("{base}.tar.xz"));
        let installed = self.tar(&data)?;
        write(&out.join(&tar), &installed)?;
        let members = [
            ("debian-binary", b"2.0\n".to_vec()),
            ("control.tar.xz", self.tar(&control)?),
            ("data.tar.xz", installed),
        ];
        write(&out.join(&name), &archive(&members, self.epoch))?;
        fs::remove_dir_all(&stage).map_err(|e| format!("{}: {e}", stage.display()))?;
        Ok([name, tar])
    }

    /// Puts every file where it is installed.
    fn fill(&self, data: &Path) -> Result<(), Failure> {
        let packaging = workspace::root().join("packaging");
        copy(&self.program, &data.join("usr/bin/thermocline"))?;
        for unit in UNITS {
            let path = format!("usr/lib/systemd/system/{unit}");
            copy(&packaging.join("systemd").join(unit), &data.join(path))?;
        }
        let users = "usr/lib/sysusers.d/thermocline.conf";
        copy(&packaging.join("sysusers/thermocline.conf"), &data.join(users))?;
        for (shell, path) in SHELLS {
            let script = output(Command::new(&self.program).args(["completions", shell]))?;
            write(&data.join(path), &script)?;
        }
        let man = data.join("usr/share/man/man1");
        make_folder(&man)?;
        output(Command::new(&self.program).args(["man", "--to"]).arg(&man))?;
        let documents = data.join("usr/share/doc/thermocline");
        let root = workspace::root();
        copy(&packaging.join("thermocline.toml"), &documents.join("examples/thermocline.toml"))?;
        copy(&root.join("LICENSE"), &documents.join("copyright"))?;
        let plugins = root.join("crates/plugins");
        for header in INTERFACES {
            copy(&plugins.join("include").join(header), &data.join(HEADERS).join(header))?;
        }
        for example in ["lru.c", "baseline.c"] {
            let to = documents.join("examples").join(example);
            copy(&plugins.join("examples").join(example), &to)?;
        }
        for board in entries(&packaging.join("grafana"))? {
            let name = board.file_name().expect("a file of the folder");
            copy(&board, &documents.join("grafana").join(name))?;
        }
        for (from, name) in [
            ("docs/formats/thermocline.toml", "thermocline.toml"),
            ("docs/formats/balance.toml", "balance.toml"),
            ("CHANGELOG.md", "changelog"),
        ] {
            copy(&root.join(from), &documents.join(name))?;
            compress(&documents.join(name))?;
        }
        let pages = fs::read_dir(&man).map_err(|e| format!("{}: {e}", man.display()))?;
        for page in pages {
            compress(&page.map_err(|e| format!("{}: {e}", man.display()))?.path())?;
        }
        Ok(())
    }

    fn control(&self, folder: &Path, installed_kib: u64) -> Result<(), Failure> {
        let libc = self.glibc.map(|(major, minor)| format!("libc6 (>= {major}.{minor}), "));
        let text = format!(
            "Package: thermocline\nVersion: {}\nArchitecture: {}\nMaintainer: the thermocline \
             authors <thermocline@example.org>\nInstalled-Size: {installed_kib}\nDepends: {}adduser, procps\n\
             Suggests: nbd-client\nSection: admin\nPriority: optional\nDescription: hybrid storage, \
             live and in the laboratory\n Tiered volumes over NBD, a load balancer, a tunnel, and a \
             laboratory that\n runs the same policies over traces in virtual time.\n",
            self.version,
            self.architecture,
            libc.unwrap_or_default()
        );
        write(&folder.join("control"), text.as_bytes())?;
        for script in ["postinst", "prerm", "postrm"] {
            let from = workspace::root().join("packaging/debian").join(script);
            copy(&from, &folder.join(script))?;
            set_mode(&folder.join(script), 0o755)?;
        }
        set_mode(&folder.join("control"), 0o644)?;
        set_mode(folder, 0o755) // The archive has the folder itself, too.
    }

    /// A folder as tar, compressed.
    fn tar(&self, folder: &Path) -> Result<Vec<u8>, Failure> {
        let mut tar = Command::new("tar");
        tar.args(["--sort=name", "--format=gnu", "--owner=root:0", "--group=root:0"]);
        tar.arg(format!("--mtime=@{}", self.epoch));
        // One thread: how xz cuts blocks among several is not the same everywhere.
        let xz = format!("--use-compress-program=xz -{} --threads=1", self.effort);
        tar.args([&xz, "-c", "-C"]);
        output(tar.arg(folder).arg("."))
    }
}

/// The newest of versions such as `GLIBC_2.34` in a text.
pub(super) fn newest_glibc(text: &str) -> (u32, u32) {
    let versions = text.split("GLIBC_").skip(1).filter_map(|rest| {
        let end = rest.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(rest.len());
        let mut numbers = rest[..end].split('.');
        Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    });
    versions.max().unwrap_or((2, 17))
}

/// Debian's name of the processor in the header of a program, as `readelf -h` shows it.
pub(super) fn architecture(header: &str) -> Result<&'static str, Failure> {
    let machine = header.lines().find_map(|line| line.trim().strip_prefix("Machine:"));
    let machine = machine.unwrap_or_default().trim();
    let known = [
        ("X86-64", "amd64"),
        ("AArch64", "arm64"),
        ("RISC-V", "riscv64"),
        ("PowerPC64", "ppc64el"),
        ("S/390", "s390x"),
    ];
    let found = known.iter().find(|(name, _)| machine.contains(name));
    let unknown = || format!("a program for `{machine}` has no package: name its architecture");
    Ok(found.map(|(_, debian)| *debian).ok_or_else(unknown)?)
}

/// An `ar` archive of files owned by root.
pub(super) fn archive(members: &[(&str, Vec<u8>)], epoch: u64) -> Vec<u8> {
    let mut bytes = b"!<arch>\n".to_vec();
    for (name, content) in members {
        let length = content.len();
        let head = format!("{name:<16}{epoch:<12}{:<6}{:<6}{:<8}{length:<10}`\n", 0, 0, 100644);
        assert_eq!(head.len(), 60, "every field fits: {head:?}");
        bytes.extend(head.as_bytes());
        bytes.extend(content);
        if length % 2 == 1 {
            bytes.push(b'\n');
        }
    }
    bytes
}

fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    let bytes = fs::read(from).map_err(|e| format!("{}: {e}", from.display()))?;
    write(to, &bytes)
}

/// Replaces a file by itself, compressed without name and time.
fn compress(path: &Path) -> Result<(), Failure> {
    output(Command::new("gzip").args(["-9", "-n", "-f"]).arg(path)).map(|_| ())
}

/// 755 for folders and programs, 644 for all else.
fn set_modes(folder: &Path) -> Result<(), Failure> {
    set_mode(folder, 0o755)?;
    for path in entries(folder)? {
        match path.is_dir() {
            true => set_modes(&path)?,
            false if path.ends_with("usr/bin/thermocline") => set_mode(&path, 0o755)?,
            false => set_mode(&path, 0o644)?,
        }
    }
    Ok(())
}

fn set_mode(path: &Path, mode: u32) -> Result<(), Failure> {
    let set = fs::set_permissions(path, Permissions::from_mode(mode));
    set.map_err(|e| Failure::Failed(format!("{}: {e}", path.display())))
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let listed = fs::read_dir(folder).and_then(|all| all.map(|e| Ok(e?.path())).collect());
    listed.map_err(|e: std::io::Error| Failure::Failed(format!("{}: {e}", folder.display())))
}

/// Size of all files, KiB, each rounded up: the same on every file system.
fn installed_kib(folder: &Path) -> Result<u64, Failure> {
    let mut kib = 0;
    for path in entries(folder)? {
        kib += match path.is_dir() {
            true => installed_kib(&path)?,
            false => {
                let met = fs::metadata(&path).map_err(|e| format!("{}: {e}", path.display()))?;
                met.len().div_ceil(1024)
            }
        };
    }
    Ok(kib)
}
