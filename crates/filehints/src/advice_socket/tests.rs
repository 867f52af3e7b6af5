//! Advice is turned into hints; its sender is the process that the kernel names.

use super::*;
use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

fn anyway() -> NewHint {
    NewHint { stream: 3, usage: Some("mixed".to_string()), ..NewHint::default() }
}

fn usage(said: Said, may_write: bool) -> String {
    hint_of(said, may_write, anyway()).unwrap().usage.unwrap()
}

#[test]
fn advice_becomes_the_usage_that_the_access_mode_allows() {
    assert_eq!(usage(Said::Advice(Advice::Sequential), true), "sequential-write");
    assert_eq!(usage(Said::Advice(Advice::Sequential), false), "mixed", "as without it");
    assert_eq!(usage(Said::Advice(Advice::Random), true), "random-write");
    assert_eq!(usage(Said::Advice(Advice::Random), false), "read-intensive");
    assert_eq!(usage(Said::Advice(Advice::NoReuse), false), "archival");
    assert_eq!(hint_of(Said::Advice(Advice::Normal), true, anyway()), Some(anyway()));
    let demoted = hint_of(Said::Advice(Advice::DontNeed), false, anyway()).unwrap();
    assert_eq!(demoted, NewHint { demote: true, ..anyway() });
    let lives = hint_of(Said::Life(2), true, anyway()).unwrap();
    assert_eq!(lives.life.as_deref(), Some("short"));
    assert_eq!(hint_of(Said::Priority(Priority::Idle), true, anyway()), None);
}

#[test]
fn what_is_needed_soon_is_fetched_unless_nobody_waits_for_it() {
    for said in [Said::Advice(Advice::WillNeed), Said::ReadAhead] {
        assert!(hint_of(said, false, anyway()).unwrap().prefetch);
        let background = NewHint { background_ms: Some(5), prefetch: true, ..anyway() };
        assert!(!hint_of(said, false, background).unwrap().prefetch);
    }
    let fetched = NewHint { prefetch: true, ..anyway() };
    assert!(!hint_of(Said::Advice(Advice::DontNeed), false, fetched).unwrap().prefetch);
}

#[test]
fn hints_in_own_words_stand_over_what_holds_anyway() {
    let said = Hint { pin: true, life: 5, expires_ms: 1500, ..Hint::default() };
    let hint = hint_of(Said::Hint(said), false, anyway()).unwrap();
    let life = Some("extreme".to_string());
    let wanted = NewHint { pin: true, life, expires_seconds: Some(1.5), ..anyway() };
    assert_eq!(hint, wanted, "usage and stream are the others'");
    let said = Hint { stream: 9, usage: 6, background_ms: 7, ..Hint::default() };
    let hint = hint_of(Said::Hint(said), false, anyway()).unwrap();
    assert_eq!((hint.stream, hint.usage.as_deref()), (9, Some("archival")));
    assert_eq!(hint.background_ms, Some(7));
}

/// Waits for the next one.
fn next(listening: &AdviceSocket) -> Received {
    listening.received.recv_timeout(Duration::from_secs(20)).unwrap()
}

#[test]
fn who_speaks_is_who_sent_it_and_noise_is_not_heard() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hints.sock");
    let listening = AdviceSocket::at(&path).unwrap();
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let socket = UnixDatagram::unbound().unwrap();
    for noise in [&b""[..], b"THAD", &[0; DATAGRAM_BYTES], &[7; 4000]] {
        socket.send_to(noise, &path).unwrap();
    }
    let said = Said::Priority(Priority::Idle);
    let datagram = Datagram { offset: 0, length: 0, unsent: 4, said };
    socket.send_to(&datagram.encode(), &path).unwrap();
    let message = next(&listening);
    assert_eq!(message.datagram, datagram);
    assert_eq!(message.process, std::process::id() as i32);
    assert!(message.file.is_none());
    assert_eq!(listening.lost(), 4, "as the datagram says");
    assert!(AdviceSocket::at(&path).is_err(), "somebody listens there");
    drop(listening);
    assert!(!path.exists());
    drop(UnixDatagram::bind(&path).unwrap());
    assert!(
        path.exists() && AdviceSocket::at(&path).is_ok(),
        "a socket that was left over is replaced"
    );
}

#[test]
fn the_socket_of_a_command_is_hidden_from_others_and_goes_away() {
    let listening = AdviceSocket::anywhere().unwrap();
    assert!(listening.drain().is_empty(), "it ends although nobody speaks");
    let folder = listening.path().parent().unwrap().to_path_buf();
    assert_eq!(folder.metadata().unwrap().permissions().mode() & 0o777, 0o711);
    drop(listening);
    assert!(!folder.exists());
}

#[test]
fn what_is_not_taken_in_time_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hints.sock");
    let listening = AdviceSocket::at(&path).unwrap();
    let socket = UnixDatagram::unbound().unwrap();
    let datagram = Datagram { offset: 0, length: 0, unsent: 0, said: Said::ReadAhead };
    for _ in 0..WAITING_MAX + 40 {
        socket.send_to(&datagram.encode(), &path).unwrap(); // Waits for room.
    }
    let start = Instant::now();
    while listening.lost() < 40 {
        assert!(start.elapsed() < Duration::from_secs(20), "{} lost", listening.lost());
        std::thread::yield_now();
    }
    assert_eq!(listening.received().count(), WAITING_MAX);
}
