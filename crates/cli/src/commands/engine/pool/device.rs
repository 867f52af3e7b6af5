//! The device of a pool that comes: the same options, whether it is added or replaces another one.

use std::path::PathBuf;
use thermocline_engine::api::NewPool;
use thermocline_units::Bytes;

#[derive(clap::Args)]
pub(super) struct NewDevice {
    /// The file or block device.
    path: PathBuf,
    /// Make the file, of this size, when there is none; one that is there must have it.
    #[arg(long, value_name = "SIZE")]
    size: Option<Bytes>,
    /// Slow it to this profile.
    #[arg(long, value_name = "PROFILE")]
    emulate: Option<String>,
    /// Go through the page cache.
    #[arg(long)]
    buffered: bool,
    /// Destroy what is on the device.
    #[arg(long)]
    erase: bool,
}

impl NewDevice {
    /// Its path as the engine knows it, whose working directory is another one.
    pub(super) fn path(&self) -> String {
        if self.path.starts_with("s3:") {
            return self.path.display().to_string(); // A bucket, which the engine refuses.
        }
        let path = std::path::absolute(&self.path).unwrap_or_else(|_| self.path.clone());
        path.display().to_string()
    }

    /// A pool on it, of no particular place among the others.
    pub(super) fn pool(self, name: String) -> NewPool {
        NewPool {
            name,
            path: self.path(),
            size_bytes: self.size.map(|size| size.0),
            emulate: self.emulate,
            buffered: self.buffered,
            erase: self.erase,
            before: None,
            slowest: false,
            replaces: None,
        }
    }
}
