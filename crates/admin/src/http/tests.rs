//! Places for clients, and who makes way.

#![allow(clippy::unwrap_used)]

use super::*;
use tokio::sync::{Mutex, mpsc};

/// Tells its number when it ends.
struct Ends(usize, mpsc::UnboundedSender<usize>);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.1.send(self.0);
    }
}

/// Silent connections without a token took all places, and its owner waited for each of them.
#[test]
fn the_oldest_that_has_shown_no_token_makes_way() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (come, comes) = mpsc::unbounded_channel();
        let comes = Mutex::new(comes);
        let accept = async || comes.lock().await.recv().await.ok_or(io::ErrorKind::Other.into());
        let (began, mut begins) = mpsc::unbounded_channel();
        let (ended, mut ends) = mpsc::unbounded_channel();
        let talk = |number: usize, caller: Arc<Caller>| {
            if number < 3 {
                caller.note_known();
            }
            let (began, ends) = (began.clone(), Ends(number, ended.clone()));
            async move {
                let _ends = ends;
                began.send(number).unwrap();
                std::future::pending::<()>().await;
            }
        };
        let run = async {
            for number in 0..CONNECTIONS_MAX + 2 {
                come.send(number).unwrap();
                assert_eq!(begins.recv().await, Some(number));
            }
        };
        tokio::select! {
            () = answer(accept, talk) => unreachable!("it lets in for ever"),
            () = run => {}
        }
        assert_eq!((ends.try_recv(), ends.try_recv()), (Ok(3), Ok(4)), "the oldest of the others");
    });
}
