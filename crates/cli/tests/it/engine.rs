//! A running engine, looked after: the commands that talk to it, its API, metrics, tokens and TLS.

use crate::program;
use crate::up::{Up, clients_are_here};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Runs the program against the engine in `pools`: its output, or what it complained about.
pub(crate) fn ask(up: &Up, arguments: &str) -> Result<String, String> {
    let mut all: Vec<&str> = arguments.split_whitespace().collect();
    all.extend(["--data", "pools"]);
    up.run(env!("CARGO_BIN_EXE_thermocline"), &all)
}

pub(crate) fn json(up: &Up, arguments: &str) -> Value {
    let text = ask(up, &format!("{arguments} --json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// A request over any stream: status and body.
fn http(mut stream: impl Read + Write, path: &str, headers: &str) -> (u16, String) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let body = answer.split_once("\r\n\r\n").unwrap().1.to_string();
    (status, body)
}

pub(crate) fn over_socket(folder: &Path, path: &str) -> (u16, String) {
    http(UnixStream::connect(folder.join("pools/http.sock")).unwrap(), path, "")
}

/// Sends a body over the engine's socket: status and answer.
pub(crate) fn post(folder: &Path, path: &str, body: &str) -> (u16, String) {
    let mut stream = UnixStream::connect(folder.join("pools/http.sock")).unwrap();
    let head = "Host: x\r\nConnection: close\r\nContent-Type: application/json";
    let length = body.len();
    write!(stream, "POST {path} HTTP/1.1\r\n{head}\r\nContent-Length: {length}\r\n\r\n{body}")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer.split_once("\r\n\r\n").unwrap().1.to_string())
}

/// Writes a megabyte pattern at an offset through a real client.
fn write(up: &Up, pattern: u8, offset: &str, length: &str) {
    let write = format!("write -P {pattern} {offset} {length}");
    up.run("qemu-io", &["-f", "raw", "-c", &write, crate::up::URI]).unwrap();
}

fn read(up: &Up, pattern: u8, offset: &str, length: &str) {
    let read = format!("read -P {pattern} {offset} {length}");
    let out = up.run("qemu-io", &["-f", "raw", "-c", &read, crate::up::URI]).unwrap();
    assert!(!out.contains("verification failed"), "{out}");
}

#[test]
fn volumes_are_made_grown_mapped_and_deleted_while_the_engine_runs() {
    if !clients_are_here() {
        return;
    }
    let folder = program::folder("engine-volumes");
    let up = Up::start_with(&folder, "--size 64MiB --no-emulation --policy none");
    assert_eq!(ask(&up, "volume create 8MiB").unwrap(), "v1, 8 MiB, identity 2\n");
    let uri = "nbd+unix:///v1?socket=pools/nbd.sock";
    up.run("qemu-io", &["-f", "raw", "-c", "write -P 7 2M 1M", uri]).unwrap();
    assert_eq!(ask(&up, "volume grow v1 16MiB").unwrap(), "v1, 16 MiB, identity 2\n");
    assert_eq!(up.run("nbdinfo", &["--size", uri]).unwrap().trim(), (16 << 20).to_string());
    let map = json(&up, "volume map v1");
    let runs: Vec<(u64, u64, usize)> = map
        .as_array()
        .unwrap()
        .iter()
        .map(|run| {
            let number = |key: &str| run[key].as_u64().unwrap() >> 20;
            let pools = run["pools"].as_array().unwrap().len();
            (number("offset_bytes"), number("length_bytes"), pools)
        })
        .collect();
    assert_eq!(runs, [(0, 2, 0), (2, 1, 1), (3, 13, 0)]);
    let refused = ask(&up, "volume grow v1 4MiB").unwrap_err();
    assert!(refused.contains("never shrinks: it has 16 MiB, and 4 MiB were"), "{refused}");
    let refused = ask(&up, "volume create x 1000").unwrap_err();
    assert!(refused.contains("1000 bytes are no size") && !refused.contains("shrink"), "{refused}");
    let refused = ask(&up, "volume create x 200TiB").unwrap_err();
    assert!(refused.contains("allow 64 TiB at most"), "{refused}");
    // More than the pools have: allowed, and told.
    let command = env!("CARGO_BIN_EXE_thermocline");
    let create = format!("{command} volume create big 20GiB --data pools 2>&1");
    let said = up.run("sh", &["-c", &create]).unwrap();
    assert!(
        said.contains("note: all volumes together have 20") && said.contains("add a pool"),
        "{said}"
    );
    ask(&up, "volume delete big --yes").unwrap();
    assert!(ask(&up, "volume delete v1").unwrap_err().contains("--yes"));
    ask(&up, "volume delete v1 --yes").unwrap();
    assert!(up.run("nbdinfo", &["--size", uri]).is_err());
    assert!(ask(&up, "volume map v1").unwrap_err().contains("there are: v0"));
    assert_eq!(up.stop("-TERM"), Some(0));
}

#[test]
fn ranges_are_migrated_copied_and_pinned_and_hold_what_they_held() {
    if !clients_are_here() {
        return;
    }
    let folder = program::folder("engine-migrate");
    let up = Up::start_with(&folder, "--size 64MiB --no-emulation --policy none");
    write(&up, 5, "0", "8M");
    let job = json(&up, "migrate v0 --to hdd --length 4MiB --wait");
    assert_eq!((job["chunks"].as_u64(), job["done"].as_u64()), (Some(4), Some(4)));
    let job = json(&up, "migrate v0 --to ssd --offset 4MiB --length 8MiB --do replicate --wait");
    assert_eq!(
        (job["done"].as_u64(), job["skipped"]["the chunk holds nothing"].as_u64()),
        (Some(4), Some(4))
    );
    ask(&up, "migrate v0 --do pin --length 1MiB").unwrap();
    let map = ask(&up, "volume map v0 --length 8MiB").unwrap();
    assert!(map.contains("hdd, pinned") && map.contains("scm, ssd"), "{map}");
    read(&up, 5, "0", "8M");
    let nothing = ask(&up, "hint give v0 --length 1MiB --expires 9").unwrap_err();
    assert!(nothing.contains("the hint says nothing of the data"), "{nothing}");
    let kinds = ask(&up, "migrate v0 --do teleport").unwrap_err();
    assert!(kinds.contains("[possible values: migrate, replicate, prefetch,"), "{kinds}");
    let unknown = ask(&up, "migrate v0 --to tape").unwrap_err();
    assert!(unknown.contains("there is no pool tape; there are: scm, ssd, hdd"), "{unknown}");
    assert!(ask(&up, "migrate v0 --to hdd --offset 1TiB").unwrap_err().contains("ends beyond"));
    assert_eq!(up.stop("-TERM"), Some(0));
}

#[test]
fn a_pool_joins_is_drained_and_leaves_while_its_data_stays_readable() {
    if !clients_are_here() {
        return;
    }
    let folder = program::folder("engine-pools");
    let up = Up::start_with(&folder, "--size 64MiB --no-emulation --policy none");
    write(&up, 9, "0", "16M");
    ask(&up, "pool add extra pools/extra.pool --size 64MiB").unwrap();
    let drained = json(&up, "pool drain scm --wait");
    assert_eq!(
        (drained["state"].as_str(), drained["chunks_used"].as_u64()),
        (Some("drained"), Some(0))
    );
    ask(&up, "pool remove scm").unwrap();
    read(&up, 9, "0", "16M");
    assert!(ask(&up, "pool drain nowhere").unwrap_err().contains("there is no pool nowhere"));
    let status = ask(&up, "status").unwrap();
    assert!(status.starts_with("ready, up") && status.contains("extra"), "{status}");
    assert_eq!(up.stop("-TERM"), Some(0));
}

#[test]
fn the_policy_is_shown_and_changed_while_the_engine_runs() {
    if !clients_are_here() {
        return;
    }
    let folder = program::folder("engine-policy");
    let up = Up::start_with(&folder, "--size 64MiB --no-emulation");
    assert!(ask(&up, "policy show").unwrap().starts_with("auto, asked every "));
    let set = ask(&up, "policy set baseline:k=7 --epoch 10s").unwrap();
    assert!(set.contains("asked every 10 s") && set.contains("k = 7"), "{set}");
    let set = ask(&up, "policy set hemem --epoch 5m").unwrap();
    assert!(set.contains("asked every 5 min"), "{set}");
    // What wants an epoch of its own gets it, unless somebody says otherwise.
    let set = ask(&up, "policy set auto").unwrap();
    assert!(set.contains("asked every 5.0 s"), "{set}");
    let set = ask(&up, "policy set auto --epoch 1m").unwrap();
    assert!(set.contains("asked every 1 min"), "{set}");
    assert!(ask(&up, "policy set lru").unwrap_err().contains("is a cache, not a placement"));
    assert!(ask(&up, "policy set baselin").unwrap_err().contains("baseline"));
    assert_eq!(ask(&up, "policy set none").unwrap(), "none\n");
    assert_eq!(up.stop("-TERM"), Some(0));
    let gone = Command::new(env!("CARGO_BIN_EXE_thermocline"))
        .args(["status", "--data", "pools"])
        .current_dir(&folder)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&gone.stderr).into_owned();
    assert!(
        gone.status.code() == Some(1) && said.contains("is an engine running there?"),
        "{said}"
    );
}

#[test]
fn the_api_describes_itself_and_metrics_count_what_clients_did() {
    if !clients_are_here() {
        return;
    }
    let folder = program::folder("engine-metrics");
    let up = Up::start_with(&folder, "--size 64MiB --no-emulation --policy none");
    write(&up, 3, "0", "2M");
    read(&up, 3, "0", "1M");
    let (status, text) = over_socket(&folder, "/v1/openapi.json");
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(status, 200);
    // Whatever the document promises to answer without arguments is answered, and is JSON.
    let mut plain = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        let parameters = methods["get"]["parameters"].as_array();
        let needs = |parameter: &Value| parameter["required"] == true;
        let asks = parameters.is_some_and(|parameters| parameters.iter().any(needs));
        if methods["get"].is_object() && !asks {
            let (status, body) = over_socket(&folder, path);
            assert_eq!(status, 200, "{path}");
            assert!(serde_json::from_str::<Value>(&body).is_ok(), "{path}: {body}");
            plain += 1;
        }
    }
    assert!(plain >= 8, "{plain} paths");
    let (status, metrics) = over_socket(&folder, "/metrics");
    assert_eq!(status, 200);
    let value = |name: &str| -> f64 {
        let line = metrics.lines().find(|line| line.starts_with(name)).unwrap();
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    assert_eq!(value("thermocline_pool_written_bytes_total{pool=\"scm\"}"), f64::from(2 << 20));
    assert_eq!(value("thermocline_pool_read_bytes_total{pool=\"scm\"}"), f64::from(1 << 20));
    assert!(value("thermocline_request_duration_seconds_count{op=\"write\"}") >= 1.0);
    assert!(metrics.ends_with("# EOF\n"));
    let (status, heat) = over_socket(&folder, "/v1/volumes/v0/heat");
    assert!(status == 200 && heat.contains("\"column_bytes\":262144"), "{heat}");
    assert_eq!(over_socket(&folder, "/v1/volumes/v9/heat").0, 404);
    // An empty body, although every refusal promises a message; and keys that nobody knows were
    // dropped, so that an answer was of the whole volume.
    let message = |path: &str| {
        let (status, body) = over_socket(&folder, path);
        let body: Value = serde_json::from_str(&body).unwrap();
        (status, body["message"].as_str().unwrap().to_string())
    };
    let (status, said) = message("/v1/nothing");
    assert_eq!((status, said.contains("there is no /v1/nothing")), (404, true), "{said}");
    let (status, said) = message("/v1/volumes/v0/extents?offset=1");
    assert_eq!((status, said.contains("did you mean `offset_bytes`?")), (400, true), "{said}");
    let (status, said) = message("/v1/events?since=4");
    assert_eq!((status, said.contains("unknown key `since`")), (400, true), "{said}");
    assert_eq!(message("/v1/events?from=many").0, 400);
    assert_eq!(up.stop("-TERM"), Some(0));
}

#[test]
fn over_tcp_the_api_asks_for_its_token_and_the_page_does_not() {
    if !clients_are_here() {
        return;
    }
    let folder = program::folder("engine-token");
    std::fs::write(
        folder.join("up.toml"),
        "data = \"pools\"\n[[pool]]\nname = \"only\"\npath = \"only.pool\"\nsize = \"64MiB\"\n\
         [[volume]]\nsize = \"16MiB\"\n[http]\ntcp = \"127.0.0.1:0\"\ntoken-file = \"token\"\n",
    )
    .unwrap();
    let token = "0123456789abcdef0123456789abcdef";
    std::fs::write(folder.join("token"), token).unwrap();
    Command::new("chmod").args(["600", "token"]).current_dir(&folder).status().unwrap();
    let (up, said) = Up::start_config(&folder, "up.toml");
    let address = said.split("http://").nth(1).unwrap().split('/').next().unwrap();
    let connect = || TcpStream::connect(address).unwrap();
    assert_eq!(http(connect(), "/v1/status", "").0, 401);
    assert_eq!(http(connect(), "/metrics", "Authorization: Bearer wrong\r\n").0, 401);
    let right = format!("Authorization: Bearer {token}\r\n");
    assert_eq!(http(connect(), "/v1/status", &right).0, 200);
    let (status, page) = http(connect(), "/", "");
    assert!(status == 200 && page.contains("<title>thermocline</title>") && !page.contains(token));
    assert_eq!(up.stop("-TERM"), Some(0));
}

#[test]
fn over_tls_clients_with_the_right_certificate_come_in_and_others_do_not() {
    if !clients_are_here() {
        return;
    }
    let folder = program::folder("engine-tls");
    let made = Command::new("sh").arg("-ec").arg(CERTIFICATES).current_dir(&folder).output();
    if !made.as_ref().is_ok_and(|made| made.status.success()) {
        skipped("openssl is not here, or made no certificates");
        return;
    }
    std::fs::write(
        folder.join("up.toml"),
        "data = \"pools\"\n[[pool]]\nname = \"only\"\npath = \"only.pool\"\nsize = \"64MiB\"\n\
         [[volume]]\nsize = \"16MiB\"\n[nbd]\ntcp = [\"127.0.0.1:0\"]\n\
         tls-cert = \"server-cert.pem\"\ntls-key = \"server-key.pem\"\ntls-client-ca = \"ca-cert.pem\"\n",
    )
    .unwrap();
    let (up, said) = Up::start_config(&folder, "up.toml");
    let address = said.split("nbds://").nth(1).unwrap().split('/').next().unwrap();
    let port = address.rsplit(':').next().unwrap();
    let secret = format!("nbds://localhost:{port}/v0?tls-certificates=.");
    let size = up.run("nbdinfo", &["--size", &secret]).unwrap();
    assert_eq!(size.trim(), (16 << 20).to_string());
    std::fs::write(folder.join("in"), vec![0x5a; 16 << 20]).unwrap();
    up.run("nbdcopy", &["--flush", "in", &secret]).unwrap();
    up.run("nbdcopy", &[&secret, "out"]).unwrap();
    let same =
        std::fs::read(folder.join("in")).unwrap() == std::fs::read(folder.join("out")).unwrap();
    assert!(same, "what came out is not what went in");
    let clear = format!("nbd://localhost:{port}/v0");
    assert!(up.run("nbdinfo", &["--size", &clear]).is_err(), "a client in the clear was let in");
    let nobody = format!("nbds://localhost:{port}/v0?tls-certificates=nobody");
    assert!(
        up.run("nbdinfo", &["--size", &nobody]).is_err(),
        "a client without a certificate was let in"
    );
    assert_eq!(up.stop("-TERM"), Some(0));
}

/// A client's connection after its handshake, of the fixed newstyle.
fn attached(address: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.read_exact(&mut [0; 18]).unwrap();
    stream.write_all(&3_u32.to_be_bytes()).unwrap(); // Flags: fixed newstyle, no zeroes.
    let wish = [&2_u32.to_be_bytes()[..], b"v0", &0_u16.to_be_bytes()].concat();
    stream.write_all(b"IHAVEOPT").unwrap();
    stream.write_all(&[7_u32, wish.len() as u32].map(u32::to_be_bytes).concat()).unwrap();
    stream.write_all(&wish).unwrap();
    loop {
        let mut head = [0; 20];
        stream.read_exact(&mut head).unwrap();
        let number = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().unwrap());
        stream.read_exact(&mut vec![0; number(16) as usize]).unwrap();
        if number(12) == 1 {
            return stream; // Acknowledged.
        }
    }
}

/// A client that sends cheap requests without a pause, and reads all answers, kept others out, and
/// a stop waiting, for as long as it went on.
#[test]
fn a_client_that_never_rests_keeps_nobody_out() {
    let folder = program::folder("never-rests");
    let config = "data = \"pools\"\n[nbd]\ntcp = [\"127.0.0.1:0\"]\n[[pool]]\nname = \"only\"\n\
                  size = \"64MiB\"\n[[volume]]\nname = \"v0\"\nsize = \"16MiB\"\n";
    std::fs::write(folder.join("up.toml"), config).unwrap();
    let (up, said) = Up::start_config(&folder, "up.toml");
    let address = said.split("nbd://").nth(1).unwrap().split('/').next().unwrap().to_string();
    let stream = attached(&address);
    // NBD_CMD_CACHE of the first block.
    let request = |cookie: u64| {
        let head = [&0x2560_9513_u32.to_be_bytes()[..], &[0, 0, 0, 5], &cookie.to_be_bytes()];
        [head.concat(), vec![0; 8], 4096_u32.to_be_bytes().to_vec()].concat()
    };
    let requests: Vec<u8> = (0..4096).flat_map(request).collect();
    let answered = Arc::new(AtomicU64::new(0));
    let (mut reader, mut writer, count) =
        (stream.try_clone().unwrap(), stream, Arc::clone(&answered));
    let sending = std::thread::spawn(move || while writer.write_all(&requests).is_ok() {});
    let reading = std::thread::spawn(move || {
        let mut answers = vec![0; 1 << 20];
        while let Ok(length @ 1..) = reader.read(&mut answers) {
            count.fetch_add(length as u64, Ordering::Relaxed);
        }
    });
    while answered.load(Ordering::Relaxed) < 16 * 100_000 {
        std::thread::yield_now();
    }
    (0..3).for_each(|_| drop(attached(&address)));
    assert_eq!(up.stop("-TERM"), Some(0));
    sending.join().unwrap();
    reading.join().unwrap();
}

#[allow(clippy::print_stdout)] // The gate repeats such lines at its end.
fn skipped(why: &str) {
    println!("SKIPPED: TLS with a real client: {why}");
}

/// An authority, a server and a client certificate by it; in `nobody` the authority alone.
const CERTIFICATES: &str = "
ext=subjectAltName=DNS:localhost,IP:127.0.0.1
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority -keyout ca-key.pem -out ca-cert.pem
for who in server client; do
  openssl req -newkey rsa:2048 -nodes -subj /CN=localhost -addext $ext -keyout $who-key.pem -out $who.csr
  openssl x509 -req -in $who.csr -CA ca-cert.pem -CAkey ca-key.pem -CAcreateserial -days 2 \
    -copy_extensions copy -out $who-cert.pem
done
chmod 600 *-key.pem
mkdir nobody && cp ca-cert.pem nobody/
";

#[test]
fn what_the_policy_has_learnt_survives_a_restart_and_its_file_is_no_obstacle() {
    if !clients_are_here() {
        return;
    }
    let folder = program::folder("engine-learnt");
    let words = "--size 64MiB --no-emulation";
    let events = || over_socket(&folder, "/v1/events?from=0").1;
    let up = Up::start_with(&folder, words);
    ask(&up, "hint give v0 --length 1MiB --metadata --source test").unwrap();
    assert_eq!(up.stop("-TERM"), Some(0));
    let learnt = folder.join("pools").join("learnt");
    assert!(learnt.is_file(), "it is kept at the end");
    let up = Up::start_with(&folder, words);
    assert!(events().contains("auto goes on from what it had learnt"), "{}", events());
    assert!(events().contains("1 range of hints is known again, 0 no longer fit"), "{}", events());
    assert_eq!(json(&up, "hint list")["ranges"], 1);
    assert_eq!(up.stop("-TERM"), Some(0));
    // A source that was wrong before is not followed again because of a restart.
    let hints = folder.join("pools").join("hints.json");
    let mut kept: Value = serde_json::from_slice(&std::fs::read(&hints).unwrap()).unwrap();
    kept["sources"][0]["scores"] = serde_json::json!({ "metadata": 0.125 });
    std::fs::write(&hints, kept.to_string()).unwrap();
    let up = Up::start_with(&folder, words);
    let sources = json(&up, "hint list")["sources"].to_string();
    assert!(sources.contains("0.125") && sources.contains("metadata"), "{sources}");
    ask(&up, "hint forget test").unwrap();
    assert_eq!(up.stop("-TERM"), Some(0));
    assert!(!hints.exists(), "none were left");
    // What another group's policy has learnt is of other chunks.
    let other = program::folder("engine-learnt-elsewhere");
    let up = Up::start_with(&other, words);
    assert_eq!(up.stop("-TERM"), Some(0));
    std::fs::copy(&learnt, other.join("pools").join("learnt")).unwrap();
    let up = Up::start_with(&other, words);
    let told = over_socket(&other, "/v1/events?from=0").1;
    assert!(told.contains("auto decides about moves") && !told.contains("goes on"), "{told}");
    assert_eq!(up.stop("-TERM"), Some(0));
    let garbled = b"TCLEARNT but no more";
    std::fs::write(&learnt, garbled).unwrap();
    std::fs::write(&hints, b"{}").unwrap();
    let up = Up::start_with(&folder, words);
    assert!(events().contains("the policy learns anew"), "{}", events());
    let aside = folder.join("pools").join("learnt.unread");
    assert_eq!(std::fs::read(aside).unwrap(), garbled, "another version may read it");
    assert!(events().contains("hints must be given again"), "{}", events());
    assert_eq!(up.stop("-TERM"), Some(0));
}
