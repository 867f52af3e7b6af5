//! Guests of user-mode Linux on clones of one image: their kernels' NBD clients and ext4, over TCP
//! through TAP devices, against an agent and a store.

use super::{PATIENCE, Scene};
use crate::program::{self, run};
use std::fs::File;
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Folder in which Debian's kernel for user mode keeps its modules.
const MODULES: &str = "/usr/lib/uml/modules";
/// Time for a guest on a machine however busy.
const GUEST: Duration = Duration::from_secs(300);
const PORT: u16 = 10809;

/// Place of a program, in the folders of administrators too.
fn find(name: &str) -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    let found = folders.map(|folder| folder.join(name)).find(|at| at.is_file());
    found.ok_or_else(|| format!("{name} is missing"))
}

/// A command that must succeed.
fn must(program: &str, words: &str) -> Result<(), String> {
    let ran = Command::new(find(program)?).args(words.split_whitespace()).output();
    let ran = ran.map_err(|error| error.to_string())?;
    match ran.status.success() {
        true => Ok(()),
        false => Err(format!("{program} {words}: {}", String::from_utf8_lossy(&ran.stderr))),
    }
}

/// Tools of guests; or why there can be none.
struct Tools {
    kernel: PathBuf,
    busybox: PathBuf,
    client: PathBuf,
    module: PathBuf,
}

fn tools() -> Result<Tools, String> {
    for name in ["mke2fs", "e2fsck", "ethtool", "sha256sum"] {
        find(name)?;
    }
    let versions = std::fs::read_dir(MODULES).map_err(|error| format!("{MODULES}: {error}"))?;
    let newest = versions.filter_map(|entry| Some(entry.ok()?.path())).max();
    let module = newest.ok_or_else(|| format!("{MODULES} is empty"))?;
    let probe = format!("tcp{}", std::process::id());
    must("ip", &format!("tuntap add dev {probe} mode tap"))?;
    must("ip", &format!("tuntap del dev {probe} mode tap"))?;
    Ok(Tools {
        kernel: find("linux.uml")?,
        busybox: find("busybox")?,
        client: find("nbd-client")?,
        module: module.join("kernel/drivers/block/nbd.ko"),
    })
}

/// A guest that runs; killed with this.
struct Guest {
    child: Child,
    console: PathBuf,
}

impl Guest {
    /// Boots a guest whose block device is an export of the agent behind `socket`. It mounts it and
    /// runs `script` in it.
    fn boot(tools: &Tools, folder: &Path, number: u8, socket: &Path, script: &str) -> Guest {
        let root = folder.join(format!("guest{number}"));
        for name in ["bin", "dev", "lib", "mnt", "proc", "sys"] {
            std::fs::create_dir_all(root.join(name)).unwrap();
        }
        for (name, from) in [("busybox", &tools.busybox), ("nbd-client", &tools.client)] {
            std::fs::copy(from, root.join("bin").join(name)).unwrap();
        }
        std::os::unix::fs::symlink("busybox", root.join("bin/sh")).unwrap();
        std::fs::copy(&tools.module, root.join("lib/nbd.ko")).unwrap();
        let linked = Command::new("ldd").arg(&tools.client).output().unwrap().stdout;
        let linked = String::from_utf8(linked).unwrap();
        for library in linked.split_whitespace().filter(|word| word.starts_with('/')) {
            let place = root.join(library.trim_start_matches('/'));
            std::fs::create_dir_all(place.parent().unwrap()).unwrap();
            std::fs::copy(library, place).unwrap();
        }
        let net = format!("10.{}.{number}", 64 + std::process::id() % 128);
        std::fs::write(root.join("init"), init(&net, script)).unwrap();
        must("chmod", &format!("755 {}", root.join("init").display())).unwrap();
        let console = folder.join(format!("guest{number}.console"));
        let (out, tap) = (File::create(&console).unwrap(), tap(number));
        let words = format!(
            "mem=128M root=/dev/root rootfstype=hostfs rootflags={} ro quiet con=null \
             con0=null,fd:1 ssl=null uml_dir=. umid=g{number} init=/init \
             vec0:transport=tap,ifname={tap},depth=64",
            root.canonicalize().unwrap().display()
        );
        let mut command = Command::new(&tools.kernel);
        command.args(words.split_whitespace()).current_dir(folder).process_group(0);
        command.stdin(Stdio::null()).stdout(out.try_clone().unwrap()).stderr(out);
        let guest = Guest { child: command.spawn().unwrap(), console };
        guest.connect(&tap, &net, socket);
        // A guest that sent something before its device was up here would never send again.
        std::fs::write(root.join("go"), "").unwrap();
        guest
    }

    /// The host's end of the guest's network, and the way from there to an agent.
    fn connect(&self, tap: &str, net: &str, socket: &Path) {
        let until = Instant::now() + PATIENCE;
        while !Path::new("/sys/class/net").join(tap).exists() {
            assert!(Instant::now() < until, "the guest does not come up: {}", self.said());
            std::thread::yield_now();
        }
        must("ip", &format!("addr add {net}.1/30 dev {tap}")).unwrap();
        must("ip", &format!("link set {tap} up")).unwrap();
        // Such a guest drops packets whose checksums were left to the device.
        must("ethtool", &format!("-K {tap} tx off")).unwrap();
        let listener = TcpListener::bind(format!("{net}.1:{PORT}")).unwrap();
        let socket = socket.to_path_buf();
        // Both end with the process.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                stream.set_nodelay(true).unwrap();
                let agent = UnixStream::connect(&socket).unwrap();
                let (mut from, mut to) = (stream.try_clone().unwrap(), agent.try_clone().unwrap());
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(std::net::Shutdown::Write);
                });
                let (mut from, mut to) = (agent, stream);
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(std::net::Shutdown::Write);
                });
            }
        });
    }

    fn said(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.console).unwrap_or_default()).into_owned()
    }

    /// Waits until the guest has halted; what it said, which ends well.
    fn halted(mut self) -> String {
        let until = Instant::now() + GUEST;
        while self.child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < until, "the guest does not end: {}", self.said());
            std::thread::yield_now();
        }
        let said = self.said();
        assert!(said.contains("guest is done"), "{said}");
        said
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let group = format!("-{}", self.child.id());
        let _ = Command::new("kill").args(["-9", "--", &group]).output();
        let _ = self.child.wait();
    }
}

/// Name of a guest's TAP device, which goes with the guest.
fn tap(number: u8) -> String {
    format!("tc{}g{number}", std::process::id())
}

/// The guest's first process.
fn init(net: &str, script: &str) -> String {
    format!(
        "#!/bin/busybox sh
export PATH=/bin
busybox mount -t proc proc /proc
busybox mount -t sysfs sys /sys
busybox mount -t tmpfs tmp /mnt
busybox mkdir /mnt/disk
{{
set -e
busybox insmod /lib/nbd.ko nbds_max=1
busybox ip addr add {net}.2/30 dev vec0
busybox ip link set vec0 up
until [ -e /go ]; do busybox sleep 0.1; done
attach() {{ nbd-client {net}.1 {PORT} /dev/nbd0 -N $1 -b 4096; busybox mount -t ext4 /dev/nbd0 /mnt/disk; }}
detach() {{ cd /; busybox umount /mnt/disk; nbd-client -d /dev/nbd0; }}
{script}
echo guest is done
}} >/dev/console 2>&1
busybox poweroff -f
"
    )
}

/// Sums of all files of a mounted tree.
const SUMS: &str = "cd /mnt/disk; busybox find . -type f | busybox sort | busybox tr '\\n' '\\0' | \
                    busybox xargs -0 busybox sha256sum | busybox sha256sum";

/// Forty machines on forty copies of one disk are to cost the store little more than one; each is a
/// real kernel whose file system is whole afterwards, also when its agent was killed meanwhile.
#[test]
fn guests_boot_from_clones_of_one_image_and_their_disks_stay_whole() {
    let tools = match tools() {
        Ok(tools) => tools,
        Err(why) => return println!("SKIPPED: guests of user-mode Linux: {why}"),
    };
    let folder = program::folder("hosting-guests");
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let shell = |words: &str| {
        let ran = Command::new("sh").args(["-ec", words]).current_dir(&folder).output().unwrap();
        assert!(ran.status.success(), "{words}: {}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).unwrap()
    };
    let sources = workspace.canonicalize().unwrap();
    let sources = sources.display();
    shell(&format!("mkdir disk && cp -r {sources}/docs {sources}/crates disk/"));
    shell("mke2fs -q -t ext4 -b 4096 -d disk image.raw 64M");
    let sums = shell(
        "cd disk && find . -type f | LC_ALL=C sort | tr '\\n' '\\0' | xargs -0 sha256sum | sha256sum",
    );
    let sum = sums.split_whitespace().next().unwrap();

    let mut scene = Scene::at(folder.clone(), "128MiB", "peers-first", "store.img");
    run(&folder, "store image import image.raw base").succeeded();
    ["a", "b", "c"]
        .iter()
        .for_each(|name| drop(run(&folder, &format!("store clone base {name}")).succeeded()));
    let agent = scene.agent(1, &["a", "b", "c"]);
    ["a", "b", "c"].iter().for_each(|name| scene.wait_attached(1, name));
    let sent = |scene: &Scene| scene.status(1)["received_bytes"].as_u64().unwrap();
    let socket = folder.join("1.nbd");
    let begun = sent(&scene);
    let write = "busybox dd if=/dev/urandom of=/mnt/disk/own bs=64k count=32; busybox sync";
    let script = format!("attach a; {SUMS}; {write}; detach");
    let said = Guest::boot(&tools, &folder, 1, &socket, &script).halted();
    assert!(said.contains(sum), "the first guest reads what the image holds: {said}");
    let first = sent(&scene) - begun;

    // Two at once, on the same host: their reads come from its cache.
    let script = |name: &str| {
        format!(
            "attach {name}; {SUMS}; {write}; detach; attach {name}; cd /mnt/disk; busybox sha256sum own; detach"
        )
    };
    let second = Guest::boot(&tools, &folder, 2, &socket, &script("b"));
    let third = Guest::boot(&tools, &folder, 3, &socket, &script("c"));
    for guest in [second, third] {
        assert!(guest.halted().contains(sum), "a later guest reads what the image holds");
    }
    let both = sent(&scene) - begun - first;
    assert!(both * 10 <= first, "two guests cost the store {both} bytes, the first one {first}");

    // What they wrote is in the store, and their disks are whole.
    assert_eq!(agent.end(), Some(0));
    scene.store.take().unwrap().kill();
    scene.start_store();
    let agent = scene.agent(2, &["a", "b", "c"]);
    for name in ["a", "b", "c"] {
        scene.wait_attached(2, name);
        std::fs::write(folder.join(format!("{name}.raw")), scene.bytes(2, name)).unwrap();
        shell(&format!("e2fsck -fn {name}.raw"));
        let own = shell(&format!("debugfs -R 'stat own' {name}.raw 2>/dev/null"));
        assert!(own.contains("Size: 2097152"), "{name}: {own}");
    }
    run(&folder, "store check").succeeded();
    assert_eq!(agent.end(), Some(0));
}
