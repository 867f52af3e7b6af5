//! Settings of one end: who it is, and its limits. Plain data, checked when a session begins.

use crate::format::{
    FRAME_PAYLOAD_BYTES_MAX, PARAMETERS_BYTES_MAX, WINDOW_BYTES_MAX, WINDOW_BYTES_MIN,
};
use bytes::Bytes;
use thermocline_units::Nanos;

/// Side of a connection. It decides the parity of the streams that an end opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Made the connection; its streams have odd numbers.
    Connector,
    /// Accepted it; its streams have even numbers.
    Acceptor,
}

/// Settings of a session; [`Config::new`] has the defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Side of the connection.
    pub role: Role,
    /// Name of a run of this end, told to the other one.
    pub epoch: [u8; 16],
    /// Bytes for the other session's user, sent in HELLO, at most [`PARAMETERS_BYTES_MAX`]; empty
    /// unless set.
    pub parameters: Bytes,
    /// Streams that the other end may have open, and that this end opens at most; 2,048.
    pub streams_max: u32,
    /// Length of the header of a stream that the other end opens, bytes; 4 KiB, at most
    /// [`FRAME_PAYLOAD_BYTES_MAX`].
    pub header_bytes_max: u32,
    /// Bytes that the other end may always send on a stream before they are consumed; 32 KiB.
    pub window_floor_bytes: u32,
    /// The same on a stream that is used much, as long as the pool has room; 1 MiB.
    pub window_max_bytes: u32,
    /// Bytes received and not consumed, on all streams; 256 MiB. Holds two times `streams_max`
    /// floors; what is above them is the pool.
    pub received_bytes_max: u64,
    /// Bytes that a stream may always queue for sending; 16 KiB.
    pub queue_floor_bytes: u32,
    /// The same as long as the pool has room; 256 KiB.
    pub queue_max_bytes: u32,
    /// Bytes queued for sending, on all streams; 128 MiB. Holds two times `streams_max` floors;
    /// what is above them is the pool.
    pub queued_bytes_max: u64,
    /// Pings, resets and refused streams that the other end may send in a second; 8,192.
    pub control_frames_per_s_max: u32,
    /// Time in which the other end's HELLO must be there; 10 s.
    pub hello_within: Nanos,
    /// Silence of the other end after which it is asked for a sign of life; 15 s.
    pub ping_after: Nanos,
    /// Silence of the other end after which it is taken for dead; 45 s.
    pub silent_after: Nanos,
}

impl Config {
    /// The defaults for an end in this role, in the run that `epoch` names.
    pub fn new(role: Role, epoch: [u8; 16]) -> Config {
        Config {
            role,
            epoch,
            parameters: Bytes::new(),
            streams_max: 2048,
            header_bytes_max: 4 << 10,
            window_floor_bytes: 32 << 10,
            window_max_bytes: 1 << 20,
            received_bytes_max: 256 << 20,
            queue_floor_bytes: 16 << 10,
            queue_max_bytes: 256 << 10,
            queued_bytes_max: 128 << 20,
            control_frames_per_s_max: 8192,
            hello_within: Nanos::from_secs(10),
            ping_after: Nanos::from_secs(15),
            silent_after: Nanos::from_secs(45),
        }
    }

    /// True if a session can begin with these settings.
    ///
    /// # Errors
    /// Names the first setting that does not fit and what would.
    pub fn check(&self) -> Result<(), ConfigError> {
        let at_most = |setting, value: u64, most: u64| {
            let expected = format!("at most {most}");
            if value > most { Err(ConfigError { setting, value, expected }) } else { Ok(()) }
        };
        let at_least = |setting, value: u64, least: u64| {
            let expected = format!("at least {least}");
            if value < least { Err(ConfigError { setting, value, expected }) } else { Ok(()) }
        };
        at_most("parameters", self.parameters.len() as u64, PARAMETERS_BYTES_MAX as u64)?;
        at_least("streams_max", self.streams_max.into(), 1)?;
        at_most("header_bytes_max", self.header_bytes_max.into(), FRAME_PAYLOAD_BYTES_MAX as u64)?;
        let (floor, max) = (self.window_floor_bytes, self.window_max_bytes);
        at_least("window_floor_bytes", floor.into(), WINDOW_BYTES_MIN.into())?;
        at_least("window_max_bytes", max.into(), floor.into())?;
        at_most("window_max_bytes", max.into(), WINDOW_BYTES_MAX.into())?;
        at_least("received_bytes_max", self.received_bytes_max, self.floors(floor))?;
        let (floor, max) = (self.queue_floor_bytes, self.queue_max_bytes);
        at_least("queue_floor_bytes", floor.into(), 1)?;
        at_least("queue_max_bytes", max.into(), floor.into())?;
        at_least("queued_bytes_max", self.queued_bytes_max, self.floors(floor))?;
        let control = self.control_frames_per_s_max;
        at_least("control_frames_per_s_max", control.into(), 1)?;
        at_most("control_frames_per_s_max", control.into(), 1_000_000_000)?;
        at_least("hello_within", self.hello_within.0, 1)?;
        at_least("ping_after", self.ping_after.0, 1)?;
        at_least("silent_after", self.silent_after.0, self.ping_after.0.saturating_add(1))
    }

    /// Bytes of the floors of all streams that there can be.
    fn floors(&self, floor_bytes: u32) -> u64 {
        2 * u64::from(self.streams_max) * u64::from(floor_bytes)
    }

    /// Bytes of windows above their floors.
    pub(crate) fn window_pool_bytes(&self) -> u64 {
        self.received_bytes_max - self.floors(self.window_floor_bytes)
    }

    /// Bytes of send queues above their floors.
    pub(crate) fn queue_pool_bytes(&self) -> u64 {
        self.queued_bytes_max - self.floors(self.queue_floor_bytes)
    }
}

/// A setting that does not fit the others or the format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{setting}` is {value}; set it to {expected}")]
pub struct ConfigError {
    /// Name of the setting.
    pub setting: &'static str,
    /// Its value, or its length.
    pub value: u64,
    /// Values that would fit.
    pub expected: String,
}
