//! The states of a volume, one after the other.

#![allow(clippy::unwrap_used)]

use super::*;

const WHY: &str = "another host has it";

#[test]
fn a_volume_is_asked_for_until_it_is_here_and_no_more_when_it_was_lost() {
    let mut volumes = Volumes::default();
    let state = |volumes: &Volumes| volumes.status(|_| 9).pop().unwrap().state;
    volumes.asked("v", VolumeKey(1));
    assert_eq!(volumes.refused(VolumeKey(1), WHY, Nanos(50)), Some("v".to_string()));
    assert!(volumes.is_wanted("v") && volumes.due(Nanos(49)).is_empty());
    assert_eq!(
        (volumes.due(Nanos(50)), volumes.next_due()),
        (vec!["v".to_string()], Some(Nanos(50)))
    );
    volumes.asked("v", VolumeKey(2));
    assert_eq!(volumes.refused(VolumeKey(2), WHY, Nanos(70)), None, "told before");
    volumes.asked("v", VolumeKey(3));
    assert_eq!(volumes.attached(VolumeKey(2), 7), None, "an old key");
    assert_eq!(volumes.attached(VolumeKey(3), 7), Some("v".to_string()));
    let status = volumes.status(|key| u64::from(key.0)).pop().unwrap();
    assert_eq!((status.size_bytes, status.fence, status.why), (7 * 4096, 3, None));
    assert_eq!(volumes.lost(VolumeKey(3), WHY, None), Some("v".to_string()));
    assert_eq!((state(&volumes).as_str(), volumes.is_wanted("v")), ("lost", false));
    assert!(volumes.due(Nanos(1 << 60)).is_empty() && volumes.has("v"));
    volumes.asked("v", VolumeKey(4));
    assert_eq!(state(&volumes), "waiting");
}

#[test]
fn a_volume_that_is_here_is_flushed_before_it_is_given_back() {
    let mut volumes = Volumes::default();
    let (told, mut answer) = oneshot::channel();
    assert_eq!(volumes.give_back("v", Some(HostId(2)), told), GiveBack::Now(None));
    assert!(answer.try_recv().is_ok());
    volumes.asked("v", VolumeKey(1));
    volumes.attached(VolumeKey(1), 7);
    let (told, mut answer) = oneshot::channel();
    assert_eq!(volumes.give_back("v", Some(HostId(2)), told), GiveBack::Flush(VolumeKey(1)));
    assert!(answer.try_recv().is_err() && !volumes.is_empty());
    assert_eq!(volumes.given_back(VolumeKey(1)), Some(("v".to_string(), Some(HostId(2)))));
    assert!(answer.try_recv().is_ok() && volumes.is_empty());
    volumes.asked("w", VolumeKey(2));
    let (told, _) = oneshot::channel();
    assert_eq!(volumes.give_back("w", None, told), GiveBack::Now(Some(VolumeKey(2))), "never here");
    // Whoever waits for one that is lost hears of its end.
    volumes.asked("x", VolumeKey(3));
    volumes.attached(VolumeKey(3), 7);
    let (told, mut answer) = oneshot::channel();
    volumes.give_back("x", None, told);
    volumes.lost(VolumeKey(3), WHY, Some(Nanos(5)));
    assert_eq!(volumes.due(Nanos(5)), ["x"]);
    assert!(matches!(answer.try_recv(), Err(oneshot::error::TryRecvError::Closed)));
}

/// Attaching a volume that is being given back was answered with success, and did nothing.
#[test]
fn a_volume_that_is_being_given_back_says_so() {
    let mut volumes = Volumes::default();
    volumes.asked("v", VolumeKey(1));
    volumes.attached(VolumeKey(1), 8);
    assert!(!volumes.is_detaching("v") && !volumes.is_detaching("w"));
    let (told, _answer) = oneshot::channel();
    assert_eq!(volumes.give_back("v", None, told), GiveBack::Flush(VolumeKey(1)));
    assert!(volumes.is_detaching("v"));
    volumes.stays(VolumeKey(1));
    assert!(!volumes.is_detaching("v"));
}
