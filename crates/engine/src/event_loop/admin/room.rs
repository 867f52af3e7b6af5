//! Interface of the thread that looks after file systems: the files it looks at, and its findings.

use super::super::room::FileRoom;
use super::AdminApi;
use std::path::PathBuf;
use thermocline_units::PoolId;

impl AdminApi<'_> {
    /// Files and devices of all pools.
    pub(in crate::event_loop) fn pool_files(&self) -> Vec<(PoolId, PathBuf)> {
        let pools = (0..).map(PoolId).zip(&self.engine.disks);
        let there = pools.filter_map(|(id, device)| Some((id, device.as_ref()?)));
        let files = there.flat_map(|(id, device)| {
            device.devices().map(move |disk| (id, disk.path().to_path_buf()))
        });
        files.collect()
    }

    /// Takes what was found, and tells what is new.
    pub(in crate::event_loop) fn note_room(&mut self, files: Vec<FileRoom>) {
        for (severity, text) in self.engine.room.note(files) {
            self.engine.event(severity, "room", text);
        }
    }
}
