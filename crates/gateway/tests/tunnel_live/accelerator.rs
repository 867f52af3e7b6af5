//! A worker process that cuts for an exit: the same bytes go over the link as without it, and flows
//! go on when it is killed, stopped or lies.
//!
//! The worker is this test's own program, run again as [`this_program_as_a_worker`]. Where the
//! Verilated core was built (`cargo xtask hdl build`), it is used, too.

use super::*;
use std::ffi::OsString;
use std::process::ExitStatus;
use thermocline_gateway::{AcceleratorStatus, Worker};
use thermocline_ports_os::worker::{Serving, simd};

#[path = "../../../ports-os/src/worker/verilated.rs"]
mod verilated;

/// Set in the environment of a worker: what it does wrong, and from which job on.
const ROLE: &str = "THERMOCLINE_TEST_WORKER";

/// Runs the program that follows it with the memory as descriptor 3, because a test's program
/// writes to its standard output. The two last arguments of every worker go into the environment.
const WITHOUT_OUTPUT: &str = "exec 3>&1 >/dev/null; \
    SLOTS=$1 BUFFER=$2 exec \"$0\" --exact accelerator::this_program_as_a_worker --nocapture";

#[test]
fn this_program_as_a_worker() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let number = |name: &str| std::env::var(name).unwrap().parse::<u64>().unwrap();
    let memory =
        std::fs::OpenOptions::new().read(true).write(true).open("/proc/self/fd/3").unwrap();
    let socket = std::os::fd::AsFd::as_fd(&io::stdin()).try_clone_to_owned().unwrap().into();
    let (slots, buffer) = (number("SLOTS") as u32, Bytes(number("BUFFER")));
    let lies_from: u64 = role.parse().unwrap();
    let mut jobs = 0;
    let mut compute = |job: &_| {
        let mut answer = simd(job);
        jobs += 1;
        if jobs > lies_from {
            answer.positions.iter_mut().for_each(|position| *position += 1);
            answer.length = answer.length.saturating_sub(1);
        }
        answer
    };
    Serving { socket, memory, slots, buffer, only: None }.run(&mut compute).unwrap();
    std::process::exit(0);
}

/// This program as a worker that lies from job `lies_from` on.
fn worker(lies_from: u64) -> Worker {
    let mut worker = Worker::new("/usr/bin/env".into());
    let program = std::env::current_exe().unwrap();
    let words: [OsString; 5] = [
        format!("{ROLE}={lies_from}").into(),
        "/bin/sh".into(),
        "-c".into(),
        WITHOUT_OUTPUT.into(),
        program.into(),
    ];
    worker.arguments = words.to_vec();
    worker
}

/// A worker that never lies.
fn honest() -> Worker {
    worker(u64::MAX)
}

/// A pair whose exit, at the server's side, has this worker.
fn pair(scene: &Scene, target: SocketAddr, worker: Option<Worker>) -> (Gateway, Gateway) {
    let mut config = scene.exit_config(any(), "127.0.0.1:*");
    config.common.worker = worker;
    let exit = Gateway::exit(config).unwrap();
    (scene.enter(exit.addresses[0], target), exit)
}

fn status(exit: &Gateway) -> AcceleratorStatus {
    exit.status().accelerator.unwrap()
}

/// Content of which half comes twice.
fn content(length: usize) -> Vec<u8> {
    let half = noise(5, length / 2);
    [&half[..], &half[..]].concat()
}

fn signal(name: &str, process: u32) -> ExitStatus {
    Command::new("kill").args([format!("-{name}"), process.to_string()]).status().unwrap()
}

/// Bytes and references of the exit's class, when a flow has carried `data` with this worker.
fn carried(data: &[u8], worker: Option<Worker>) -> ([u64; 4], Option<AcceleratorStatus>) {
    let served = data.to_vec();
    let scene = Scene::new();
    let target = server(move |mut stream| stream.write_all(&served));
    let mut config = scene.exit_config(any(), "127.0.0.1:*");
    // A pause cuts, and when one is seen depends on the machine's load: here none is.
    config.common.linger = FOR_EVER;
    config.common.worker = worker;
    let exit = Gateway::exit(config).unwrap();
    let enter = scene.enter(exit.addresses[0], target);
    assert!(read_all(&mut connect(enter.addresses[0])).unwrap() == data, "other bytes came");
    let class = exit.status().links[0].classes[0].clone();
    ([class.bytes, class.sent, class.chunks, class.references], exit.status().accelerator)
}

#[test]
fn the_same_is_sent_whoever_cuts() {
    let data = content(12 * MIB);
    let (by_simd, none) = carried(&data, None);
    assert!(none.is_none());
    let (by_worker, status) = carried(&data, Some(honest()));
    let status = status.unwrap();
    assert_eq!(by_worker, by_simd);
    assert!(by_simd[3] > 1000, "half is found: {by_simd:?}");
    println!("12 MiB: {by_simd:?} (bytes, sent, chunks, references), {status:?}");
    assert!(status.is_up && status.bytes > 10 * MIB as u64, "{status:?}");
    assert_eq!((status.jobs_failed, status.false_answers, status.failures), (0, 0, 0));
}

/// The Verilated core that cuts with Rabin16.
fn rabin16_core() -> Option<Worker> {
    let mut worker = Worker::new(verilated::verilated("1-8")?);
    worker.patience = FOR_EVER;
    Some(worker)
}

#[test]
fn the_same_is_sent_when_the_verilated_core_cuts() {
    let Some(worker) = rabin16_core() else { return };
    let data = content(2 * MIB);
    let (by_simd, _) = carried(&data, None);
    let (by_core, status) = carried(&data, Some(worker));
    let status = status.unwrap();
    assert_eq!(by_core, by_simd);
    assert!(status.is_up && status.bytes > MIB as u64, "{status:?}");
    assert_eq!((status.jobs_failed, status.false_answers), (0, 0));
}

/// Carries a flow with this worker, has `spoil` do something to it in the middle, and looks whether
/// all arrives and the failure is told. The worker is back afterwards, and cuts again.
fn goes_on(mut worker: Worker, words: &str, spoil: impl Fn(Option<u32>)) {
    worker.patience = Duration::from_millis(500);
    let data = content(24 * MIB);
    let served = data.clone();
    let scene = Scene::new();
    let target = server(move |mut stream| stream.write_all(&served));
    let (enter, exit) = pair(&scene, target, Some(worker));
    let mut stream = connect(enter.addresses[0]);
    let mut got = vec![0; 2 * MIB];
    stream.read_exact(&mut got).unwrap();
    spoil(status(&exit).process);
    got.extend(read_all(&mut stream).unwrap());
    assert!(got == data, "other bytes came");
    scene.log.wait_for(&format!("exit accelerator: /usr/bin/env: failed: {words}"));
    let failed = status(&exit);
    assert!(failed.failures >= 1, "{failed:?}");
    assert!(failed.bytes > 0, "it had cut before: {failed:?}");

    scene.log.wait_for("cuts content again");
    wait_until("it is up", || status(&exit).is_up);
    let before = status(&exit).bytes;
    assert!(read_all(&mut connect(enter.addresses[0])).unwrap() == data, "other bytes came");
    assert!(status(&exit).bytes > before, "it cuts again");
}

#[test]
fn a_flow_goes_on_when_the_worker_is_killed() {
    goes_on(honest(), "it", |process| {
        assert!(signal("KILL", process.unwrap()).success());
    });
}

#[test]
fn a_flow_goes_on_when_the_worker_is_stopped() {
    goes_on(honest(), "it did not answer a job in time", |process| {
        assert!(signal("STOP", process.unwrap()).success());
    });
}

#[test]
fn a_flow_goes_on_when_the_worker_lies() {
    goes_on(worker(20), "its answer is false", |_| ());
}

#[test]
fn a_verilated_core_that_is_killed_or_stopped_leaves_the_flow_to_simd() {
    for name in ["KILL", "STOP"] {
        let Some(mut worker) = rabin16_core() else { return };
        worker.patience = Duration::from_secs(2);
        let data = content(4 * MIB);
        let served = data.clone();
        let scene = Scene::new();
        let target = server(move |mut stream| stream.write_all(&served));
        let (enter, exit) = pair(&scene, target, Some(worker));
        let mut stream = connect(enter.addresses[0]);
        let mut got = vec![0; MIB / 4];
        stream.read_exact(&mut got).unwrap();
        assert!(signal(name, status(&exit).process.unwrap()).success());
        got.extend(read_all(&mut stream).unwrap());
        assert!(got == data, "other bytes came");
        scene.log.wait_for("worker: failed: it");
    }
}

#[test]
fn a_worker_that_is_none_is_refused_at_the_start() {
    let scene = Scene::new();
    for (program, words) in [("/nowhere/worker", "cannot be started"), ("/bin/echo", "as a worker")]
    {
        let mut config = scene.exit_config(any(), "");
        config.common.worker = Some(Worker::new(program.into()));
        let error = Gateway::exit(config).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(words) && error.contains(program), "{error}");
    }
}
