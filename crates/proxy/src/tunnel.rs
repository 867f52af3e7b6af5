//! Bytes both ways: after an upgrade, and in TCP mode.
//!
//! Each direction ends by itself: when one side has nothing more to say, that is passed on, and the
//! other may go on (half-close). A tunnel through which nothing moves for the idle time is closed.

use super::client::{Admission, Alarm};
use super::core::Sent;
use super::deadlines::Deadlines;
use super::proxy::Counted;
use super::request_record::RequestRecord;
use super::stream::Stream;
use super::upstream::Http1;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use std::io;
use std::sync::Arc;
use std::task::Poll;
use thermocline_balancer::Outcome;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

/// Bytes in memory for each direction of a tunnel.
const BUFFER_BYTES: usize = 16 * 1024;

/// Joins a client that switches protocols with the server that agreed, on a task of its own.
pub(super) fn switch(
    client: OnUpgrade,
    mut conn: Box<Http1>,
    sent: Sent,
    deadlines: Arc<Deadlines>,
    mut record: RequestRecord,
    admission: Arc<Admission>,
) {
    let shared = sent.shared().clone();
    let counted = Counted::new(&shared);
    tokio::spawn(async move {
        let _counted = (counted, admission);
        let ended = std::future::poll_fn(|cx| {
            conn.drive(cx);
            if conn.is_over() { Poll::Ready(()) } else { Poll::Pending }
        });
        let mut alarm = Alarm::own(deadlines.clone());
        if alarm.race(ended).await.is_none() {
            sent.finish(Outcome::TimedOut);
            return;
        }
        let (mut server, early) = conn.into_stream();
        server.watched(&deadlines);
        let joined = async {
            let client = client.await.map_err(io::Error::other)?;
            let mut client = TokioIo::new(client);
            client.write_all(&early).await?;
            join(&mut client, &mut server).await
        };
        let result = alarm.race(joined).await;
        finish(sent, &mut record, result);
        record.end(&shared, None);
    });
}

/// Moves bytes both ways until both directions have ended; how many came from each side.
pub(super) async fn join(
    client: &mut (impl AsyncRead + AsyncWrite + Unpin),
    server: &mut Stream,
) -> io::Result<(u64, u64)> {
    tokio::io::copy_bidirectional_with_sizes(client, server, BUFFER_BYTES, BUFFER_BYTES).await
}

/// Tells what became of a tunnel. Who broke it off cannot be told apart: it is no failure of the
/// server's, and neither is that it was idle.
pub(super) fn finish(
    sent: Sent,
    record: &mut RequestRecord,
    result: Option<io::Result<(u64, u64)>>,
) {
    match result {
        Some(Ok((from_client, from_server))) => {
            record.bytes = from_server;
            sent.count(from_client, from_server);
            sent.served();
        }
        Some(Err(_)) | None => sent.finish(Outcome::ClientFailed),
    }
}
