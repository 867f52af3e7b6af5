//! A device's words and a volume's.

#![allow(clippy::unwrap_used)]

use super::*;
use thermocline_units::Bytes;

#[test]
fn fragments_are_one_payload_and_failures_keep_their_meaning() {
    let part = |at, byte| Fragment { at, payload: Payload::from(vec![byte; 512]) };
    let zeroes = Fragment { at: 512, payload: Payload::Zeroes(512) };
    let joined = device_result(Ok(vec![part(0, 1), zeroes, part(1024, 3)])).unwrap().to_vec();
    assert_eq!(joined, [vec![1; 512], vec![0; 512], vec![3; 512]].concat());
    assert_eq!(device_result(Ok(Vec::new())), Ok(Payload::EMPTY));
    assert_eq!(device_result(Ok(vec![part(0, 7)])).unwrap().len(), 512);
    assert_eq!(device_result(Err(RequestError::NoSpace)), Err(DeviceError::NoSpace));
    assert_eq!(device_result(Err(RequestError::Io)), Err(DeviceError::Io));
    assert_eq!(device_result(Err(RequestError::NotReady)), Err(DeviceError::Gone));
}

#[test]
fn requests_keep_their_ranges_and_their_durability() {
    let data = Payload::from(vec![9; 512]);
    let write = Io::Write { offset: Bytes(1024), data: data.clone(), fua: true };
    let Action::Write { offset, payload, fua } = Action::of_io(write) else { panic!("a write") };
    assert_eq!((offset, payload, fua), (Bytes(1024), data, true));
    let zeroes = Io::WriteZeroes { offset: Bytes(512), length: Bytes(512) };
    assert!(matches!(Action::of_io(zeroes), Action::WriteZeroes { fua: false, .. }));
    assert!(matches!(Action::of_io(Io::Flush), Action::Flush));
}
