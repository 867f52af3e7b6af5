//! Every truncation, every split, every byte flipped.

use super::{Handshake, Refusal, Reply, Step};

const GREETING: &[u8] = &[5, 2, 0, 2];

fn requests() -> Vec<(Vec<u8>, &'static str)> {
    let mut name = vec![5, 1, 0, 3, 12];
    name.extend(b"web.internal");
    name.extend([0, 80]);
    let mut six = vec![5, 1, 0, 4, 0xFD];
    six.extend([0; 14]);
    six.extend([7, 0x1F, 0x90]);
    vec![
        (vec![5, 1, 0, 1, 10, 0, 0, 7, 0, 80], "10.0.0.7:80"),
        (name, "web.internal:80"),
        (six, "[fd00::7]:8080"),
    ]
}

/// Gives `bytes` in pieces of `piece`; the steps.
fn run(bytes: &[u8], piece: usize) -> Result<(Vec<Step>, Handshake), Refusal> {
    let (mut handshake, mut steps) = (Handshake::default(), Vec::new());
    for part in bytes.chunks(piece) {
        handshake.receive(part);
        while !matches!(steps.last(), Some(Step::Connect(_))) {
            let Some(step) = handshake.step()? else { break };
            steps.push(step);
        }
    }
    Ok((steps, handshake))
}

#[test]
fn requests_are_read_however_they_are_split() {
    for (request, target) in requests() {
        let whole = [GREETING, &request, b"first words"].concat();
        for piece in 1..=whole.len() {
            let (steps, handshake) = run(&whole, piece).unwrap();
            let expected = vec![Step::Say([5, 0]), Step::Connect(target.parse().unwrap())];
            assert_eq!(steps, expected, "in pieces of {piece}");
            assert_eq!(handshake.rest(), b"first words");
        }
    }
}

#[test]
fn what_is_cut_short_waits_for_more() {
    for (request, _) in requests() {
        let whole = [GREETING, &request].concat();
        for length in 0..whole.len() {
            let (steps, _) = run(&whole[..length], whole.len()).unwrap();
            let expected = usize::from(length >= GREETING.len());
            assert_eq!(steps.len(), expected, "after {length} bytes");
        }
    }
}

#[test]
fn every_flipped_byte_is_refused_waits_or_asks_for_something_sound() {
    for (request, _) in requests() {
        let whole = [GREETING, &request].concat();
        for at in 0..whole.len() {
            for flip in 1..=255_u8 {
                let mut bytes = whole.clone();
                bytes[at] ^= flip;
                match run(&bytes, bytes.len()) {
                    Err(Refusal::Stranger { found }) => assert!(at == 0 && found != 5),
                    Err(refusal) => assert_eq!(refusal.message()[0], 5),
                    Ok((steps, _)) => {
                        if let Some(Step::Connect(target)) = steps.last() {
                            assert_eq!(target.to_string().parse().as_ref(), Ok(target));
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn refusals_say_the_right_code() {
    let refused = |request: &[u8]| {
        let whole = [GREETING, request].concat();
        run(&whole, whole.len()).map(|(steps, _)| steps).unwrap_err()
    };
    assert_eq!(refused(&[5, 2]).message()[1], 7, "BIND");
    assert_eq!(refused(&[5, 1, 0, 9]).message()[1], 8, "an unknown kind of address");
    assert_eq!(refused(&[4]).message()[1], 1);
    assert_eq!(refused(&[5, 1, 1]).message()[1], 1);
    assert_eq!(refused(&[5, 1, 0, 3, 2, b'a', b' ', 0, 80]).message()[1], 4, "no name");
    assert_eq!(refused(&[5, 1, 0, 3, 0, 0, 80]).message()[1], 4, "an empty name");
    assert_eq!(refused(&[5, 1, 0, 1, 1, 2, 3, 4, 0, 0]).message()[1], 4, "port 0");
    assert_eq!(run(&[5, 1, 2], 3).unwrap_err().message(), [5, 0xFF]);
    assert_eq!(run(&[5, 0], 2).unwrap_err(), Refusal::Methods);
    let http = run(b"GET / HTTP/1.1\r\n", 16).unwrap_err();
    assert_eq!((http.message().len(), http), (0, Refusal::Stranger { found: b'G' }));
    assert_eq!(Reply::Connected.message(), [5, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
}
