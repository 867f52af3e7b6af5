//! A device answers and logs what it is asked; a write that is held back is not covered by a flush.

use super::super::log::Log;
use super::*;
use crate::torture::nbd::{Ask, Client};

#[test]
fn what_is_asked_is_done_logged_in_that_order_and_answered() {
    let folder = std::env::temp_dir().join(format!("powerloss-device-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (socket, path) = (folder.join("socket"), folder.join("log"));
    let _ = std::fs::remove_file(&socket); // Of an earlier process of this number.
    let listener = UnixListener::bind(&socket).unwrap();
    let log = Shared::new(Writer::create(&path).unwrap());
    let device = Device::new(1, 1 << 20, log.clone(), 5);
    let served = std::thread::spawn(move || device.serve(&listener));
    let mut client = Client::connect(&socket, "any").unwrap();
    assert_eq!(client.size, 1 << 20);
    for turn in 0..100u64 {
        // A write and a flush are under way at once.
        client.send(1, Ask::Write, (turn * 512, 512), &[turn as u8 + 1; 512]).unwrap();
        client.send(2, Ask::Flush, (0, 0), &[]).unwrap();
        let answers = [client.answer().unwrap(), client.answer().unwrap()];
        assert!(answers.contains(&(1, 0)) && answers.contains(&(2, 0)), "{answers:?}");
        log.mark(turn).unwrap();
    }
    client.one(Ask::WriteForced, (1024, 512), &[7; 512]).unwrap().unwrap();
    assert_eq!(client.one(Ask::Read, (1024, 1024), &[]).unwrap().unwrap()[511..513], [7, 4]);
    drop(client);
    served.join().unwrap().unwrap();
    log.end().unwrap();
    let entries = Log::open(&path).unwrap().entries;
    let kinds: Vec<Kind> = entries.iter().map(|(entry, _)| entry.kind).collect();
    assert_eq!((kinds.len(), kinds[300]), (301, Kind::WriteForced));
    let late = kinds[..300].chunks(3).filter(|turn| turn[0] == Kind::Flush).count();
    assert!(kinds[..300].chunks(3).all(|turn| turn[2] == Kind::Mark));
    assert!((1..50).contains(&late), "{late} of 100 writes were held back behind a flush");
    std::fs::remove_dir_all(&folder).unwrap();
}
