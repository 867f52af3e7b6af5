//! `thermocline store` and `thermocline host` as users run them: real clients, processes that are
//! killed, two hosts and clones of one image, strangers.

mod guests;
mod room;

use crate::program::{self, run};
use crate::tunnel_page::curl;
use crate::up::clients_are_here;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use thermocline_units::Rng;

/// Time for what must happen on a machine however busy.
const PATIENCE: Duration = Duration::from_secs(60);
const MIB: usize = 1 << 20;

/// A running store or agent; killed with this.
struct Process {
    child: Child,
    said: String,
}

impl Process {
    fn start(folder: &Path, words: &str) -> Process {
        let mut child = Command::new(env!("CARGO_BIN_EXE_thermocline"))
            .args(words.split_whitespace())
            .current_dir(folder)
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(folder.join("last.stderr")).unwrap())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut said = String::new();
        while !said.contains("stop with Ctrl-C") {
            let line = lines.next().unwrap_or_else(|| {
                let why = std::fs::read_to_string(folder.join("last.stderr")).unwrap();
                panic!("{words}: it did not come up: {why}")
            });
            said += &(line.unwrap() + "\n");
        }
        Process { child, said }
    }

    /// The text behind `word` on a line of what it said.
    fn told(&self, word: &str) -> String {
        let rest = self.said.split(word).nth(1).unwrap();
        rest.split([',', '\n']).next().unwrap().trim().to_string()
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for its end; its exit status.
    fn wait(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    /// Ends it with SIGTERM; its exit status.
    fn end(self) -> Option<i32> {
        self.signal("TERM");
        self.wait()
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &pid]).status().unwrap();
        assert!(sent.success(), "{name}");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A store with an address of its own, and agents of it.
struct Scene {
    folder: PathBuf,
    address: String,
    /// Choice of who sends blocks.
    lookup: &'static str,
    /// The store's place, as the command line names it.
    place: &'static str,
    /// Time for which a host has a volume without renewing.
    lease: &'static str,
    store: Option<Process>,
}

/// A store on a volume of an engine.
const ON_VOLUME: &str = "--engine pools.toml --volume content";

impl Scene {
    /// A new store of `size`; a short lease, so that a host that died is not missed for long.
    fn new(test: &str, size: &str) -> Scene {
        Scene::with(test, size, "server-first")
    }

    fn with(test: &str, size: &str, lookup: &'static str) -> Scene {
        Scene::at(program::folder(test), size, lookup, "store.img")
    }

    fn at(folder: PathBuf, size: &str, lookup: &'static str, place: &'static str) -> Scene {
        run(&folder, &format!("store create {place} --size {size}")).succeeded();
        let address = "127.0.0.1:0".to_string();
        let mut scene = Scene { folder, address, lookup, place, lease: "1s", store: None };
        scene.start_store();
        scene
    }

    fn start_store(&mut self) {
        let words = format!(
            "store serve {} --listen {} --lease {} --lookup {}",
            self.place, self.address, self.lease, self.lookup
        );
        // The address of a process that was killed may be taken for a moment.
        let store = Process::start(&self.folder, &words);
        self.address = store.told("listening on ");
        self.store = Some(store);
    }

    fn agent(&self, id: u32, volumes: &[&str]) -> Process {
        self.agent_with(id, volumes, "")
    }

    fn agent_with(&self, id: u32, volumes: &[&str], more: &str) -> Process {
        let volumes: String = volumes.iter().map(|name| format!(" --volume {name}")).collect();
        let address = &self.address;
        let words = format!(
            "host serve --id {id} --store {address} --nbd {id}.nbd --socket {id}.sock{volumes} {more}"
        );
        Process::start(&self.folder, &words)
    }

    fn status(&self, id: u32) -> Value {
        let words = format!("host status --json --socket {id}.sock");
        serde_json::from_str(&run(&self.folder, &words).succeeded().stdout()).unwrap()
    }

    fn store_status(&self) -> Value {
        let text = run(&self.folder, "store status --json").succeeded().stdout();
        serde_json::from_str(&text).unwrap()
    }

    fn state(&self, id: u32, volume: &str) -> (String, String) {
        let status = self.status(id);
        let volumes = status["volumes"].as_array().unwrap();
        let volume = volumes.iter().find(|it| it["name"] == volume);
        let text = |key: &str| volume.and_then(|it| it[key].as_str()).unwrap_or("").to_string();
        (text("state"), text("why"))
    }

    fn wait_for(&self, what: &str, done: impl Fn() -> bool) {
        let until = Instant::now() + PATIENCE;
        while !done() {
            assert!(Instant::now() < until, "{what} did not happen");
            std::thread::yield_now();
        }
    }

    fn wait_attached(&self, id: u32, volume: &str) {
        self.wait_for(&format!("{volume} at host {id}"), || self.state(id, volume).0 == "attached");
    }

    /// The answer of the API on a unix socket.
    fn get(&self, socket: &str, path: &str) -> String {
        let socket = self.folder.join(socket);
        let (code, text) =
            curl(&["--unix-socket", socket.to_str().unwrap(), &format!("http://x{path}")]);
        assert_eq!(code, 200, "{path}: {text}");
        text
    }

    /// Runs a client: its output, or what it complained about.
    fn client(&self, program: &str, arguments: &[&str]) -> Result<String, String> {
        let ran = Command::new(program).args(arguments).current_dir(&self.folder).output().unwrap();
        let text = String::from_utf8_lossy(&ran.stdout).into_owned();
        let all = format!("{text}{}", String::from_utf8_lossy(&ran.stderr));
        if ran.status.success() { Ok(text) } else { Err(all) }
    }

    /// Has qemu-io do something to a volume at a host.
    fn io(&self, id: u32, volume: &str, commands: &[&str]) -> Result<String, String> {
        let uri = format!("nbd+unix:///{volume}?socket={id}.nbd");
        let mut arguments = vec!["-f", "raw"];
        commands.iter().for_each(|command| arguments.extend(["-c", command]));
        arguments.push(&uri);
        let said = self.client("qemu-io", &arguments)?;
        let failed = said.contains("verification failed") || said.contains("error");
        if failed { Err(said) } else { Ok(said) }
    }

    /// The bytes of a volume, as a client copies them out.
    fn bytes(&self, id: u32, volume: &str) -> Vec<u8> {
        let uri = format!("nbd+unix:///{volume}?socket={id}.nbd");
        let out = format!("{id}-{volume}.raw");
        self.client("qemu-img", &["convert", "-f", "raw", "-O", "raw", &uri, &out]).unwrap();
        std::fs::read(self.folder.join(out)).unwrap()
    }
}

/// An image without zeroes in it, of whole MiB.
fn image(folder: &Path, seed: u64, mib: usize) -> Vec<u8> {
    let mut rng = Rng::seeded(seed);
    let words = (0..mib * MIB / 8).map(|_| rng.next_u64());
    let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    std::fs::write(folder.join("image.raw"), &bytes).unwrap();
    bytes
}

#[test]
fn what_was_flushed_survives_the_death_of_agent_and_store() {
    if !clients_are_here() {
        return;
    }
    let mut scene = Scene::new("hosting-death", "96MiB");
    run(&scene.folder, "store volume create vm 16MiB").succeeded();
    let agent = scene.agent(1, &["vm"]);
    scene.wait_attached(1, "vm");
    let size = scene.client("nbdinfo", &["--size", "nbd+unix:///vm?socket=1.nbd"]).unwrap();
    assert_eq!(size.trim(), (16 * MIB).to_string());
    // Begins and ends within blocks, with FUA, zeroes and TRIM between.
    let commands = [
        "write -P 7 512 3M",
        "write -f -P 8 5000k 1536",
        "write -z 1M 100k",
        "discard 2M 4k",
        "flush",
    ];
    scene.io(1, "vm", &commands).unwrap();
    agent.kill();
    scene.store.take().unwrap().kill();
    scene.start_store();
    let agent = scene.agent(1, &["vm"]);
    scene.wait_attached(1, "vm");
    let expected = [
        "read -P 0 0 512",
        "read -P 7 512 1023k",
        "read -P 0 1M 100k",
        "read -P 7 1124k 500k",
        "read -P 8 5000k 1536",
        "read -P 0 6M 10M",
    ];
    scene.io(1, "vm", &expected).unwrap();
    run(&scene.folder, "store check").succeeded();
    // A store that dies alone: the agent says again what it may have lost.
    scene.io(1, "vm", &["write -P 9 8M 2M"]).unwrap();
    scene.store.take().unwrap().kill();
    let address = scene.address.clone();
    scene.start_store();
    assert_eq!(scene.address, address, "hosts know where it is");
    scene.wait_for("the store is back", || scene.status(1)["is_connected"] == true);
    scene.io(1, "vm", &["flush", "read -P 9 8M 2M", "read -P 7 1124k 500k"]).unwrap();
    agent.kill();
    scene.store.take().unwrap().kill();
    scene.start_store();
    let agent = scene.agent(1, &["vm"]);
    scene.wait_attached(1, "vm");
    scene.io(1, "vm", &["read -P 9 8M 2M", "read -P 8 5000k 1536"]).unwrap();
    assert_eq!(agent.end(), Some(0));
    assert_eq!(scene.store.take().unwrap().end(), Some(0));
}

#[test]
fn content_on_a_group_of_pools_survives_kills_while_its_chunks_move() {
    if !clients_are_here() {
        return;
    }
    let folder = program::folder("hosting-on-volume");
    let pools = "data = \"pools\"\n[[pool]]\nname = \"fast\"\nsize = \"160MiB\"\n\
                 [[pool]]\nname = \"slow\"\nsize = \"160MiB\"\n\
                 [[volume]]\nname = \"other\"\nsize = \"8MiB\"\n";
    std::fs::write(folder.join("pools.toml"), pools).unwrap();
    let too_large = format!("store create {ON_VOLUME} --size 2GiB");
    run(&folder, &too_large).ended_with(2).says("the pools have room for");
    let missing = format!("store create {ON_VOLUME}");
    run(&folder, &missing).ended_with(2).says("pass --size to make it");
    let mut scene = Scene::at(folder, "96MiB", "server-first", ON_VOLUME);
    let again = format!("store create {ON_VOLUME}");
    run(&scene.folder, &again).ended_with(1).says("an engine is starting or running");
    let delete = "volume delete content --yes --data pools";
    run(&scene.folder, delete).ended_with(2).says("in use by a content store");
    let engine = |volume: &str| format!("nbd+unix:///{volume}?socket=pools/nbd.sock");
    scene.client("nbdinfo", &["--size", &engine("other")]).unwrap();
    scene.client("nbdinfo", &["--size", &engine("content")]).unwrap_err();

    let bytes = image(&scene.folder, 22, 8);
    run(&scene.folder, "store image import image.raw base").succeeded();
    run(&scene.folder, "store clone base vm").succeeded();
    for (to, pattern) in [("slow", 5), ("fast", 6)] {
        let agent = scene.agent(1, &["vm"]);
        scene.wait_attached(1, "vm");
        let words = format!("migrate content --to {to} --data pools");
        run(&scene.folder, &words).succeeded();
        let write = format!("write -P {pattern} 1M 2M");
        scene.io(1, "vm", &[&write, "flush"]).unwrap();
        scene.store.take().unwrap().kill();
        agent.kill();
        scene.start_store();
        let agent = scene.agent(1, &["vm"]);
        scene.wait_attached(1, "vm");
        let found = scene.bytes(1, "vm");
        assert!(found[..MIB] == bytes[..MIB] && found[3 * MIB..] == bytes[3 * MIB..]);
        assert!(found[MIB..3 * MIB].iter().all(|&byte| byte == pattern));
        run(&scene.folder, "store check").succeeded();
        assert_eq!(agent.end(), Some(0));
    }
    assert_eq!(scene.store.take().unwrap().end(), Some(0));
    run(&scene.folder, &again).ended_with(2).says("holds something");
}

#[test]
fn clones_of_one_image_are_read_once_from_the_store() {
    if !clients_are_here() {
        return;
    }
    let scene = Scene::new("hosting-clones", "128MiB");
    let bytes = image(&scene.folder, 1, 8);
    run(&scene.folder, "store image import image.raw base").succeeded();
    for name in ["a", "b", "c"] {
        run(&scene.folder, &format!("store clone base {name}")).succeeded();
    }
    let status = scene.store_status();
    assert_eq!(status["stored_bytes"], 8 * MIB, "four volumes, one image");
    assert_eq!(status["mapped_bytes"], 32 * MIB);
    // Two guests on one host: the second one's image is in the cache.
    let one = scene.agent(1, &["a", "b"]);
    ["a", "b"].iter().for_each(|name| scene.wait_attached(1, name));
    assert!(scene.bytes(1, "a") == bytes);
    let first = scene.status(1)["received_bytes"].as_u64().unwrap();
    assert!(first > 8 * MIB as u64, "{first} bytes came for the first clone");
    assert!(scene.bytes(1, "b") == bytes);
    let second = scene.status(1)["received_bytes"].as_u64().unwrap() - first;
    assert!(second < first / 50, "{second} bytes came for the second clone, {first} for the first");
    // Another host, which does not know the first one: the store sends all of it once more.
    let two = scene.agent(2, &["c"]);
    scene.wait_attached(2, "c");
    assert!(scene.bytes(2, "c") == bytes);
    assert!(scene.status(2)["received_bytes"].as_u64().unwrap() > 8 * MIB as u64);
    // What is written with contents that are there costs neither bytes on the way nor room.
    let before = scene.status(2)["sent_bytes"].as_u64().unwrap();
    let copy = ["nbd+unix:///c?socket=2.nbd"];
    scene
        .client("qemu-img", &["convert", "-n", "-f", "raw", "-O", "raw", "image.raw", copy[0]])
        .unwrap();
    let sent = scene.status(2)["sent_bytes"].as_u64().unwrap() - before;
    assert!(sent < MIB as u64, "{sent} bytes were sent to write what was there");
    assert_eq!(scene.store_status()["stored_bytes"], 8 * MIB);
    scene.io(2, "c", &["write -P 3 0 1M", "flush"]).unwrap();
    assert!(scene.bytes(1, "a") == bytes, "a clone's writes are its own");
    assert_eq!((one.end(), two.end()), (Some(0), Some(0)));
}

#[test]
fn what_memory_gives_up_is_read_from_flash_and_never_wrongly() {
    if !clients_are_here() {
        return;
    }
    let scene = Scene::new("hosting-flash", "96MiB");
    let bytes = image(&scene.folder, 23, 8);
    run(&scene.folder, "store image import image.raw base").succeeded();
    run(&scene.folder, "store clone base vm").succeeded();
    std::fs::write(scene.folder.join("other"), vec![7; MIB]).unwrap();
    let id = "host serve --id 1 --volume vm";
    run(&scene.folder, &format!("{id} --flash other")).ended_with(2).says("holds something");
    run(&scene.folder, &format!("{id} --flash none")).ended_with(2).says("give its size");
    let flash = "--cache 1MiB --flash level2 --flash-size 24MiB";
    let figure = |name: &str| scene.status(1)["flash"][name].as_u64().unwrap();
    let agent = scene.agent_with(1, &["vm"], flash);
    scene.wait_attached(1, "vm");
    // What memory gives up faster than flash is written is not kept the first time.
    let blocks = (8 * MIB / 4096) as u64;
    scene.wait_for("flash holds nearly all", || {
        assert!(scene.bytes(1, "vm") == bytes);
        figure("blocks") + 300 > blocks
    });
    let (received, hits) =
        (scene.status(1)["received_bytes"].as_u64().unwrap(), figure("hit_blocks"));
    assert!(scene.bytes(1, "vm") == bytes);
    let again = scene.status(1)["received_bytes"].as_u64().unwrap() - received;
    assert!(again < 2 * MIB as u64, "{again} bytes came again");
    assert!(figure("hit_blocks") - hits + 600 > blocks, "{}", scene.status(1));
    // Somebody writes over all of it.
    let mut file = std::fs::OpenOptions::new().write(true).open(scene.folder.join("level2"));
    file.as_mut().unwrap().write_all(&vec![9; 24 * MIB]).unwrap();
    file.unwrap().sync_all().unwrap();
    assert!(scene.bytes(1, "vm") == bytes, "wrong bytes reached a guest");
    assert!(figure("damaged_blocks") > 500, "{}", scene.status(1));
    let told = scene.client("curl", &["-s", "--unix-socket", "1.sock", "http://x/v1/events"]);
    assert!(told.unwrap().contains("level2 brought wrong bytes"));
    // What does not bear the label is not taken, and what bears it is empty after a start.
    assert_eq!(agent.end(), Some(0));
    run(&scene.folder, &format!("{id} --flash level2")).ended_with(2).says("holds something");
    std::fs::remove_file(scene.folder.join("level2")).unwrap();
    for _ in 0..2 {
        let agent = scene.agent_with(1, &["vm"], flash);
        scene.wait_attached(1, "vm");
        assert_eq!(figure("blocks"), 0);
        assert!(scene.bytes(1, "vm") == bytes);
        assert!(figure("blocks") > 0);
        agent.kill();
    }
}

#[test]
fn store_and_host_have_pages_that_tell_what_is_shared_and_where_reads_come_from() {
    if !clients_are_here() || !crate::tunnel_clients::are_here(&["curl"]) {
        return;
    }
    let scene = Scene::new("hosting-page", "96MiB");
    image(&scene.folder, 24, 4);
    run(&scene.folder, "store image import image.raw base").succeeded();
    run(&scene.folder, "store clone base vm").succeeded();
    let agent = scene.agent(1, &["vm"]);
    scene.wait_attached(1, "vm");
    scene.bytes(1, "vm");
    let pages = [
        (scene.store.as_ref().unwrap(), "Shared", "thermocline-store.sock", "StoreSecond"),
        (&agent, "Reads by level", "1.sock", "HostSecond"),
    ];
    for (process, section, socket, schema) in pages {
        let (address, token) = {
            let (address, token) = process
                .said
                .split_once("dashboard: http://")
                .unwrap()
                .1
                .split_once("/#token=")
                .unwrap();
            (address, token.lines().next().unwrap())
        };
        let url = |path: &str| format!("http://{address}{path}");
        let (code, page) = curl(&[&url("/")]);
        assert!(code == 200 && page.contains(section), "{page}");
        let (code, script) = curl(&[&url("/app.js")]);
        assert!(code == 200 && script.contains("function traffic("), "{script}");
        assert_eq!(curl(&[&url("/v1/status")]).0, 401);
        let pass = format!("Authorization: Bearer {token}");
        assert_eq!(curl(&["--header", &pass, &url("/v1/status")]).0, 200);
        let socket = scene.folder.join(socket).display().to_string();
        let over = |path: &str| -> Value {
            let (code, body) = curl(&["--unix-socket", &socket, &format!("http://x{path}")]);
            assert_eq!(code, 200, "{path}: {body}");
            serde_json::from_str(&body).unwrap()
        };
        scene.wait_for("a second of the transfer", || {
            let seconds = over("/v1/history");
            let moved = |second: &Value| {
                second["sent_bytes"].as_u64().unwrap() + second["received_bytes"].as_u64().unwrap()
            };
            seconds.as_array().unwrap().iter().map(moved).sum::<u64>() > 4 << 20
        });
        assert_eq!(over("/v1/history?from=0")[0]["number"], 0);
        assert!(over("/v1/openapi.json")["components"]["schemas"][schema].is_object());
    }
}

#[test]
fn hosts_send_each_other_what_they_have() {
    if !clients_are_here() {
        return;
    }
    let scene = Scene::with("hosting-peers", "128MiB", "peers-first");
    let bytes = image(&scene.folder, 2, 8);
    run(&scene.folder, "store image import image.raw base").succeeded();
    run(&scene.folder, "store clone base a").succeeded();
    run(&scene.folder, "store clone base b").succeeded();
    // Two ports that nobody has: those of two listeners that are gone.
    let free = || std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let at = [free(), free()];
    let mut agents = Vec::new();
    for (id, other, volume) in [(1, 2, "a"), (2, 1, "b")] {
        let config = format!(
            "id = {id}\nstore = \"{}\"\nvolumes = [\"{volume}\"]\nnbd = \"{id}.nbd\"\n\
             socket = \"{id}.sock\"\nlisten = \"{}\"\n\
             [[peer]]\nid = {other}\naddress = \"{}\"\n",
            scene.address,
            at[id - 1],
            at[other - 1]
        );
        std::fs::write(scene.folder.join(format!("{id}.toml")), config).unwrap();
        agents.push(Process::start(&scene.folder, &format!("host serve --config {id}.toml")));
        scene.wait_attached(id as u32, volume);
    }
    scene.wait_for("hosts that know each other", || {
        [1, 2].iter().all(|id| scene.status(*id)["peers"].as_array().unwrap().len() == 1)
    });
    assert!(scene.bytes(1, "a") == bytes);
    let sent = |scene: &Scene| scene.store_status()["blocks_by_bytes"].as_u64().unwrap();
    let before = sent(&scene);
    assert!(scene.bytes(2, "b") == bytes);
    let (by_store, status) = (sent(&scene) - before, scene.status(2));
    let by_peer = status["peer_blocks"].as_u64().unwrap();
    // What the other host cannot send in time the store sends.
    assert!(by_peer > 0, "the other host sent nothing, the store {by_store}: {status}");
    assert!(scene.status(1)["served_blocks"].as_u64().unwrap() >= by_peer);
}

#[test]
fn a_second_writer_is_refused_until_the_first_has_given_the_volume_back() {
    if !clients_are_here() {
        return;
    }
    let scene = Scene::new("hosting-lease", "96MiB");
    run(&scene.folder, "store volume create vm 8MiB").succeeded();
    let one = scene.agent(1, &["vm"]);
    scene.wait_attached(1, "vm");
    scene.io(1, "vm", &["write -P 5 0 1M"]).unwrap();
    let two = scene.agent(2, &["vm"]);
    scene.wait_for("the refusal", || scene.state(2, "vm").1.contains("another host has it"));
    assert!(scene.io(2, "vm", &["read 0 4k"]).is_err(), "it is exported nowhere else");
    let refused = run(&scene.folder, "store delete vm --yes").ended_with(2);
    assert!(refused.stderr().contains("host 1 has `vm`"), "{}", refused.stderr());
    run(&scene.folder, "store delete vm").ended_with(2);
    run(&scene.folder, "host detach vm --socket 1.sock").succeeded();
    scene.wait_attached(2, "vm");
    scene.io(2, "vm", &["read -P 5 0 1M", "write -P 6 0 1M", "flush"]).unwrap();
    // A host that dies keeps nobody out for longer than its lease.
    run(&scene.folder, "host attach vm --socket 1.sock").succeeded();
    two.kill();
    scene.wait_attached(1, "vm");
    scene.io(1, "vm", &["read -P 6 0 1M"]).unwrap();
    run(&scene.folder, "host detach nobody --socket 1.sock").ended_with(2);
    assert_eq!(one.end(), Some(0));
    run(&scene.folder, "store delete vm --yes").succeeded();
    let freed = run(&scene.folder, "store gc --json").succeeded().stdout();
    let freed: Value = serde_json::from_str(&freed).unwrap();
    assert!(freed["freed_bytes"].as_u64().unwrap() > 0, "{freed}");
    assert_eq!(scene.store_status()["stored_bytes"], 0);
}

/// A guest migrates: the host that it leaves names the one that it goes to, and no other host that
/// asks meanwhile gets the volume.
#[test]
fn a_volume_is_handed_over_to_the_host_that_is_named() {
    let mut scene = Scene::new("hosting-hand-over", "64M");
    scene.lease = "60s";
    assert_eq!(scene.store.take().unwrap().end(), Some(0));
    scene.start_store();
    run(&scene.folder, "store volume create vm 4MiB").succeeded();
    let _one = scene.agent(1, &["vm"]);
    scene.wait_attached(1, "vm");
    scene.io(1, "vm", &["write -P 5 0 1M"]).unwrap();
    let _three = scene.agent(3, &["vm"]);
    scene.wait_for("the refusal", || scene.state(3, "vm").1.contains("another host has it"));
    run(&scene.folder, "host detach vm --to 70000 --socket 1.sock").ended_with(2);
    run(&scene.folder, "host detach vm --to 1 --socket 1.sock").ended_with(2);
    run(&scene.folder, "host detach vm --to 2 --socket 1.sock").succeeded();
    // Host 3 asks every second, and is refused again.
    let _two = scene.agent(2, &["vm"]);
    scene.wait_attached(2, "vm");
    scene.io(2, "vm", &["read -P 5 0 1M"]).unwrap();
    assert_eq!(scene.state(3, "vm").0, "waiting");
}

/// A guest whose client connects again (`reconnect-delay`) sees no error when either program ends,
/// in whatever way, and comes back: what was not answered is asked again.
#[test]
fn a_client_that_connects_again_outlives_both_programs() {
    let mut scene = Scene::new("hosting-reconnect", "256M");
    run(&scene.folder, "store volume create disk 64M").succeeded();
    let mut agent = Some(scene.agent(1, &["disk"]));
    for (of_store, signal) in [(false, "TERM"), (false, "KILL"), (true, "TERM"), (true, "KILL")] {
        scene.wait_attached(1, "disk");
        let options =
            "driver=nbd,server.type=unix,server.path=1.nbd,export=disk,reconnect-delay=60";
        let mut guest = Command::new("qemu-img")
            .args(["bench", "-w", "-c", "80000", "-d", "8", "-s", "4096", "--image-opts", options])
            .current_dir(&scene.folder)
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(scene.folder.join("guest.stderr")).unwrap())
            .spawn()
            .unwrap();
        let sent = || scene.status(1)["sent_bytes"].as_u64().unwrap();
        let before = sent();
        scene.wait_for("writing", || sent() > before + 100_000);
        assert!(guest.try_wait().unwrap().is_none(), "the guest works when its server ends");
        let ending = if of_store { scene.store.take() } else { agent.take() }.unwrap();
        ending.signal(signal);
        ending.wait();
        if of_store {
            scene.start_store();
        } else {
            agent = Some(scene.agent(1, &["disk"]));
        }
        let ended = guest.wait().unwrap();
        let said = std::fs::read_to_string(scene.folder.join("guest.stderr")).unwrap();
        assert!(ended.success(), "{signal} to the store: {of_store}; {said}");
    }
}

/// A host stood still while its volume was deleted. It went on with what it knew, and what was not
/// flushed went to the volume that had got the name.
#[test]
fn a_host_that_stood_still_gives_up_a_volume_that_was_deleted() {
    if !clients_are_here() {
        return;
    }
    let mut scene = Scene::new("hosting-deleted", "96MiB");
    run(&scene.folder, "store volume create vm 8MiB").succeeded();
    let one = scene.agent(1, &["vm"]);
    scene.wait_attached(1, "vm");
    scene.io(1, "vm", &["write -P 5 0 1M", "flush"]).unwrap();
    // The connection goes on, and brings the word.
    one.signal("STOP");
    let is_free = |scene: &Scene| scene.store_status()["volumes"][0]["host"].is_null();
    scene.wait_for("the end of its lease", || is_free(&scene));
    run(&scene.folder, "store delete vm --yes").succeeded();
    run(&scene.folder, "store volume create vm 8MiB").succeeded();
    one.signal("CONT");
    scene.wait_for("the loss", || scene.state(1, "vm").1.contains("it was deleted"));
    run(&scene.folder, "host attach vm --socket 1.sock").succeeded();
    scene.wait_attached(1, "vm");
    scene.io(1, "vm", &["read -P 0 0 1M", "write -P 6 0 1M", "flush"]).unwrap();
    // The same when the store is started again: the host comes back to another volume.
    one.signal("STOP");
    scene.store.take().unwrap().kill();
    scene.start_store();
    let deleted = || run(&scene.folder, "store delete vm --yes").stderr().is_empty();
    scene.wait_for("the deletion", deleted);
    run(&scene.folder, "store volume create vm 8MiB").succeeded();
    one.signal("CONT");
    let other = || scene.io(1, "vm", &["read -P 0 0 1M"]).is_ok();
    scene.wait_for("the other volume", other);
    assert_eq!(one.end(), Some(0));
}

#[test]
fn strangers_and_garbage_are_dropped_and_the_others_go_on() {
    if !clients_are_here() {
        return;
    }
    let scene = Scene::new("hosting-strangers", "96MiB");
    run(&scene.folder, "store volume create vm 8MiB").succeeded();
    let agent = scene.agent(1, &["vm"]);
    scene.wait_attached(1, "vm");
    let mut rng = Rng::seeded(3);
    for round in 0..20 {
        let mut stream = TcpStream::connect(&scene.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let garbage: Vec<u8> = (0..64 + rng.below(5000)).map(|_| rng.below(256) as u8).collect();
        let bytes =
            if round % 2 == 0 { &garbage[..] } else { b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" };
        let _ = stream.write_all(bytes);
        // Whoever talks nonsense is hung up on, whatever it is told before.
        let mut rest = Vec::new();
        let ended = stream.read_to_end(&mut rest);
        assert!(ended.is_ok() || rest.len() < 4096, "round {round}: {ended:?}");
    }
    // An agent that speaks another protocol hears what to do.
    let words = format!(
        "host serve --id 7 --store {} --nbd 7.nbd --socket 7.sock --protocol w-tracker --volume vm",
        scene.address
    );
    let other = Process::start(&scene.folder, &words);
    scene.wait_for("the refusal", || {
        let status = scene.status(7);
        status["last_error"].as_str().is_some_and(|why| why.contains("both need the same version"))
    });
    drop(other);
    // So does an NBD client that is none.
    let mut stream = std::os::unix::net::UnixStream::connect(scene.folder.join("1.nbd")).unwrap();
    stream.write_all(&[0xff; 4096]).unwrap();
    let _ = stream.read_to_end(&mut Vec::new());
    scene.io(1, "vm", &["write -P 5 0 1M", "flush", "read -P 5 0 1M"]).unwrap();
    assert!(scene.client("nbdinfo", &["nbd+unix:///nobody?socket=1.nbd"]).is_err());
    assert_eq!(agent.end(), Some(0));
}

#[test]
fn across_a_network_keys_say_who_may_come() {
    if !clients_are_here() {
        return;
    }
    let folder = program::folder("hosting-keys");
    run(&folder, "store create store.img --size 96MiB").succeeded();
    let refused = run(&folder, "store serve store.img --listen 0.0.0.0:0").ended_with(2);
    assert!(refused.stderr().contains("no keys are configured"), "{}", refused.stderr());
    ["s", "h1", "h2"]
        .iter()
        .for_each(|name| drop(run(&folder, &format!("tunnel keys {name}")).succeeded()));
    let config = "device = \"store.img\"\nlisten = \"0.0.0.0:0\"\nkey = \"s.key\"\nlease = \"1s\"\n\
                  [[host]]\nid = 1\nkey = \"h1.pub\"\ndomains = [0]\n";
    std::fs::write(folder.join("store.toml"), config).unwrap();
    let store = Process::start(&folder, "store serve --config store.toml");
    let address = store.told("listening on ").replace("0.0.0.0", "127.0.0.1");
    let scene = Scene {
        folder,
        address,
        lookup: "by-load",
        place: "store.img",
        lease: "1s",
        store: Some(store),
    };
    run(&scene.folder, "store volume create vm 8MiB").succeeded();
    run(&scene.folder, "store volume create secret 8MiB --domain 3").succeeded();
    let start = |id: u32, key: &str| {
        let config = format!(
            "id = {id}\nstore = \"{}\"\nvolumes = [\"vm\", \"secret\"]\nnbd = \"{id}.nbd\"\n\
             socket = \"{id}.sock\"\nkey = \"{key}.key\"\nstore-key = \"s.pub\"\n",
            scene.address
        );
        std::fs::write(scene.folder.join(format!("{id}.toml")), config).unwrap();
        Process::start(&scene.folder, &format!("host serve --config {id}.toml"))
    };
    let one = start(1, "h1");
    scene.wait_attached(1, "vm");
    scene.io(1, "vm", &["write -P 5 0 1M", "flush", "read -P 5 0 1M"]).unwrap();
    scene.wait_for("the refusal of a domain", || {
        scene.state(1, "secret").1.contains("may not use the volume's domain")
    });
    // A key that nobody named, and a host that has another one's key.
    let two = start(2, "h2");
    let why = |part: &'static str| {
        move |status: Value| status["last_error"].as_str().is_some_and(|why| why.contains(part))
    };
    let is_unknown = why("refused this machine's key");
    scene.wait_for("a stranger's refusal", || is_unknown(scene.status(2)));
    drop(two);
    let three = start(3, "h1");
    scene.wait_for("a liar's refusal", || {
        !scene.status(3)["is_connected"].as_bool().unwrap()
            && scene.status(3)["last_error"].is_string()
    });
    drop(three);
    scene.io(1, "vm", &["read -P 5 0 1M"]).unwrap();
    assert_eq!(one.end(), Some(0));
}

#[test]
fn devices_in_use_or_with_something_on_them_are_refused() {
    let folder = program::folder("hosting-devices");
    run(&folder, "store create store.img").ended_with(2);
    run(&folder, "store create store.img --size 64KiB").ended_with(1);
    assert!(!folder.join("store.img").exists(), "what could not be made is not left");
    std::fs::write(folder.join("letters.img"), vec![b'x'; 64 * MIB]).unwrap();
    let refused = run(&folder, "store create letters.img").ended_with(2);
    assert!(refused.stderr().contains("--destroy-contents"), "{}", refused.stderr());
    run(&folder, "store create letters.img --destroy-contents").succeeded();
    let refused = run(&folder, "store create letters.img").ended_with(2);
    assert!(refused.stderr().contains("a store of blocks"), "{}", refused.stderr());
    let store = Process::start(&folder, "store serve letters.img --listen 127.0.0.1:0");
    let refused =
        run(&folder, "store serve letters.img --listen 127.0.0.1:0 --socket x").ended_with(2);
    assert!(refused.stderr().contains("in use"), "{}", refused.stderr());
    run(&folder, "store create letters.img --destroy-contents").ended_with(2);
    // Names that would be part of a path, images that are none, quotas.
    run(&folder, "store volume create ../x 1MiB").ended_with(2);
    run(&folder, "store volume create x 1000").ended_with(2);
    run(&folder, "store volume create x 1MiB --domain 64").ended_with(2);
    std::fs::write(folder.join("a.qcow2"), b"QFI\xfb\0\0\0\x03 and so on").unwrap();
    let refused = run(&folder, "store image import a.qcow2 a").ended_with(2);
    assert!(refused.stderr().contains("qemu-img convert"), "{}", refused.stderr());
    let mut vdi = vec![b'<'; 1024];
    vdi[64..68].copy_from_slice(&0xbeda_107f_u32.to_le_bytes());
    for (file, bytes) in [("a.vdi", &vdi[..]), ("a.vmdk", b"# Disk DescriptorFile\nversion=1\n")] {
        std::fs::write(folder.join(file), bytes).unwrap();
        let refused = run(&folder, &format!("store image import {file} a")).ended_with(2);
        assert!(refused.stderr().contains("convert it first"), "{}", refused.stderr());
    }
    std::fs::write(folder.join("odd.raw"), vec![7; 5000]).unwrap();
    let made = run(&folder, "store image import odd.raw odd").succeeded().stdout();
    assert_eq!(made, "odd: snapshot of 8 KiB, holds 8 KiB\n");
    let again = run(&folder, "store image import odd.raw odd").ended_with(2);
    assert!(again.stderr().contains("already"), "{}", again.stderr());
    run(&folder, "store snapshot odd later").succeeded();
    run(&folder, "store snapshot nobody later").ended_with(2);
    let list = run(&folder, "store volume list").succeeded().stdout();
    assert!(list.contains("later") && !list.contains("importing"), "{list}");
    run(&folder, "store check").succeeded();
    assert_eq!(store.end(), Some(0));
}
