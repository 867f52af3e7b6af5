//! Growth of a pool of a running engine.
//!
//! 1. The loop is asked whether the pool is one that can, and for a handle of its device.
//! 2. A thread that may wait looks how large the device is; a file is to have the size that was
//!    asked for, a block device has what it has.
//! 3. The loop is asked whether the group would take so much.
//! 4. Only now something changes: the file is made larger, durably.
//! 5. The loop tells the device, and the group. When it refuses after all, because something else
//!    happened meanwhile, the file stays larger, and the next try goes on from there.
//!
//! One at a time: two that make one file larger would cut what the other has made.

use crate::api::{GrownPool, PoolGrowth};
use crate::joining::{ask, blocking, is_pool_size};
use crate::mailbox::Mailbox;
use std::io;
use thermocline_admin::api::Refused;
use thermocline_ports_os::Grower;
use thermocline_units::Bytes;
use tokio::sync::Mutex;

static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

/// Lets a pool grow, of the engine behind this mailbox.
///
/// # Errors
/// When there is no such pool, it cannot grow, the size will not do, or there is no room for it.
pub(crate) async fn grow(
    mailbox: Mailbox,
    name: String,
    wish: PoolGrowth,
) -> Result<GrownPool, Refused> {
    let _alone = ONE_AT_A_TIME.lock().await;
    let asked = name.clone();
    let grower = ask(&mailbox, move |admin| admin.grower(&asked)).await?;
    let (grower, size) = blocking(move || {
        let size = wanted_size(&grower, wish.size_bytes.map(Bytes))?;
        Ok((grower, size))
    })
    .await?;
    let asked = name.clone();
    ask(&mailbox, move |admin| admin.check_growth(&asked, size)).await?;
    let zeroed_from = blocking(move || enlarge(&grower, size)).await?;
    ask(&mailbox, move |admin| admin.grow_pool(&name, size, zeroed_from)).await
}

fn failed(grower: &Grower, error: &io::Error) -> Refused {
    Refused::invalid(format!("{}: {error}", grower.path().display()))
}

/// The size that the device shall have.
fn wanted_size(grower: &Grower, wish: Option<Bytes>) -> Result<Bytes, Refused> {
    let has = grower.size().map_err(|error| failed(grower, &error))?;
    let path = grower.path().display();
    let Some(wanted) = wish else { return Ok(has) };
    match () {
        () if wanted == has => Ok(has),
        () if !grower.is_file() => Err(Refused::invalid(format!(
            "{path} is a block device and has {has}; make it larger where it is managed, then \
             leave the size out"
        ))),
        () if wanted < has => Err(Refused::invalid(format!(
            "{path} has {has}, which is more than {wanted}: a pool never shrinks"
        ))),
        () if !is_pool_size(wanted) => Err(Refused::invalid(format!(
            "{wanted} is no size for a pool: a multiple of 512 bytes up to 1 PiB"
        ))),
        () => Ok(wanted),
    }
}

fn enlarge(grower: &Grower, size: Bytes) -> Result<Bytes, Refused> {
    grower.enlarge(size).map_err(|error| failed(grower, &error))
}
