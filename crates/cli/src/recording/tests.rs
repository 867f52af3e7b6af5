//! A recording ends when its file takes no more.

use super::{BLOCKS_WAITING_MAX, Recording, Trouble};
use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Mutex};
use thermocline_recording::Sink;

fn notes() -> (Arc<Mutex<Vec<String>>>, Trouble) {
    let said = Arc::new(Mutex::new(Vec::new()));
    let to = Arc::clone(&said);
    (said, Arc::new(move |text: &str| to.lock().unwrap().push(text.to_string())))
}

#[test]
#[allow(clippy::print_stdout)] // The gate repeats such lines at its end.
fn a_full_disk_ends_the_recording_and_is_said_once() {
    let Ok(full) = File::options().write(true).open("/dev/full") else {
        println!("SKIPPED: this system has no /dev/full");
        return;
    };
    let (said, trouble) = notes();
    let (recording, mut blocks) = Recording::on(full, Path::new("full"), trouble).unwrap();
    while blocks.take(vec![15; 1000]) {}
    assert!(!blocks.take(vec![15]), "it stays over");
    drop(blocks);
    assert_eq!(recording.finish(), "");
    let said = said.lock().unwrap().clone();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(
        said[0].contains("recording to full stopped") && said[0].contains("goes on"),
        "{said:?}"
    );
}

#[test]
fn a_file_that_is_too_slow_ends_the_recording_and_nobody_waits() {
    // A pipe that nobody reads takes 64 KiB and then nothing.
    let (reader, writer) = std::io::pipe().unwrap();
    let file = File::from(std::os::fd::OwnedFd::from(writer));
    let (said, trouble) = notes();
    let (recording, mut blocks) = Recording::on(file, Path::new("slow"), trouble).unwrap();
    let mut rng = thermocline_units::Rng::seeded(3);
    let mut block = || (0..2000).map(|_| rng.next_u64() as u8).collect::<Vec<u8>>();
    let taken = (0..).take_while(|_| blocks.take(block())).count();
    assert!((BLOCKS_WAITING_MAX..2 * BLOCKS_WAITING_MAX).contains(&taken), "{taken} blocks");
    drop((blocks, reader));
    assert_eq!(recording.finish(), "");
    assert_eq!(said.lock().unwrap().len(), 1);
}
