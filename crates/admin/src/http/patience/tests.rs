//! Clients that read, and clients that do not, by a clock that is stopped.

use super::Patient;
use std::io::ErrorKind;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

const LIMIT: Duration = Duration::from_millis(20);

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.unwrap().block_on(test);
}

#[test]
fn a_write_to_a_client_that_reads_nothing_ends() {
    run(async {
        let (mine, _theirs) = duplex(16);
        let mut stream = Patient::new(mine, LIMIT);
        let error = stream.write_all(&[7; 64]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    });
}

#[test]
fn a_client_that_reads_a_little_now_and_then_keeps_its_connection() {
    run(async {
        let (mine, mut theirs) = duplex(16);
        // So long that only a client who reads nothing at all could meet it.
        let mut stream = Patient::new(mine, Duration::from_secs(600));
        let write = async { stream.write_all(&[7; 64]).await };
        let read = async {
            let mut all = Vec::new();
            while all.len() < 64 {
                tokio::task::yield_now().await;
                all.push(theirs.read_u8().await.unwrap());
            }
            all
        };
        let (written, all) = tokio::join!(write, read);
        written.unwrap();
        assert_eq!(all, [7; 64]);
    });
}
