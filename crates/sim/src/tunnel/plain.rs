//! The same files without a tunnel: one TCP connection a file, one after the other.

use super::tcp::{Congestion, Connection, Side};
use thermocline_ports::model::LinkProfile;
use thermocline_units::Nanos;

/// Bytes that a server writes at once.
const WRITE_BYTES: usize = 64 * 1024;

/// Time that plain TCP takes for files of these sizes: for each the round trip of a new
/// connection, a request, and its bytes.
pub fn plain(
    link: LinkProfile,
    congestion: Congestion,
    sizes: impl IntoIterator<Item = u64>,
    seed: u64,
) -> Nanos {
    let sizes = sizes.into_iter().zip(1..);
    Nanos(sizes.map(|(size, file)| one(link, congestion, size, seed ^ file << 8).0).sum())
}

fn one(link: LinkProfile, congestion: Congestion, size: u64, seed: u64) -> Nanos {
    let mut connection = Connection::new(link, congestion, seed);
    // SYN and its answer; the request goes with the third packet of the handshake.
    let mut now = Nanos(3 * link.latency.0);
    let (mut given, mut taken) = (0, 0);
    while taken < size {
        while given < size {
            let room = connection.room(Side::Far).min(WRITE_BYTES);
            let bytes = (size - given).min(room as u64);
            if bytes == 0 {
                break;
            }
            connection.give(now, Side::Far, &vec![0; bytes as usize]);
            given += bytes;
        }
        let next = connection.next_event().expect("something is under way");
        now = next.max(Nanos(now.0 + 1));
        connection.advance(now);
        taken += connection.take(Side::Near).len() as u64;
    }
    now
}
