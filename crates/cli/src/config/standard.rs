//! Configuration of `thermocline up` without a file: one volume on three files in a folder, slowed
//! to what they are called.

use super::{
    Config, ConfigError, HintsConfig, HttpConfig, NbdConfig, Origin, ScrubConfig, VolumeConfig,
};
use crate::deciding::own_epoch;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use thermocline_engine::ClientLimits;
use thermocline_engine::pools::{DeviceConfig, Emulation, NamedBy, PoolConfig};
use thermocline_policy::migration::DISK_PIECE;
use thermocline_policy::registry::PolicySpec;
use thermocline_ports::model::Profile;
use thermocline_ports_os::Patience;
use thermocline_units::Bytes;
use thermocline_volume::{Copying, Settings};

/// Pools by name, with the profile that each is slowed to and its size in sixteenths of the volume:
/// the fast ones are smaller than the volume, the slow one holds all of it.
const POOLS: [(&str, &str, u64); 3] =
    [("scm", "scm", 1), ("ssd", "ssd-sata", 4), ("hdd", "hdd-7200", 16)];
/// Address of the dashboard, when the port is free.
const PAGE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8787);
/// Policy that decides about moves.
const POLICY: &str = "auto";
/// The largest volume that this makes.
const SIZE_MAX: Bytes = Bytes::from_gib(64 << 10);
/// No pool is made smaller.
const POOL_BYTES_MIN: Bytes = Bytes::from_mib(32);

/// Choices without a configuration file.
#[derive(Debug, Clone)]
pub(crate) struct Standard {
    /// The folder.
    pub(crate) data: PathBuf,
    /// Size of the volume.
    pub(crate) size: Bytes,
    /// The NBD socket; `None`: nbd.sock in the folder.
    pub(crate) socket: Option<PathBuf>,
    /// True if pools are slowed to what they are called.
    pub(crate) emulation: bool,
}

impl Standard {
    /// The choices as a configuration.
    ///
    /// # Errors
    /// When the size is none that a volume can have.
    pub(crate) fn config(&self) -> Result<Config, ConfigError> {
        if self.size.0 == 0 || self.size.0 > SIZE_MAX.0 || !self.size.0.is_multiple_of(512) {
            let text = format!("a volume of {} is not whole sectors up to {SIZE_MAX}", self.size);
            return Err(ConfigError::new(text));
        }
        let pools = POOLS.map(|(name, profile, sixteenths)| PoolConfig {
            name: name.to_string(),
            device: DeviceConfig {
                path: self.data.join(format!("{name}.pool")),
                size: Some(self.pool_size(sixteenths)),
                emulate: self.emulation.then(|| Emulation {
                    name: profile.to_string(),
                    profile: Profile::built_in(profile).expect("these profiles are built in"),
                }),
                buffered: false,
                patience: Patience::DEFAULT,
                bucket: None,
            },
            depth: None,
            moves_a_day: None,
            cache: None,
            profile: None,
            reserve: Bytes(0),
            named_by: NamedBy::Default,
        });
        let policy = PolicySpec::parse(POLICY).expect("it is in the registry");
        let own = own_epoch(&policy);
        let settings = Settings::default();
        let socket = self.socket.clone().unwrap_or_else(|| self.data.join("nbd.sock"));
        Ok(Config {
            data: self.data.clone(),
            pools: pools.to_vec(),
            volumes: vec![VolumeConfig {
                name: "v0".to_string(),
                named: false,
                size: self.size,
                sla: None,
            }],
            nbd: NbdConfig { socket, tcp: Vec::new(), tls: None, limits: ClientLimits::default() },
            http: HttpConfig {
                socket: self.data.join("http.sock"),
                tcp: Some((PAGE, self.data.join("token"))),
            },
            policy: Some(policy),
            hints: HintsConfig::default(),
            scrub: ScrubConfig::default(),
            origin: Origin::Standard,
            settings: Settings {
                epoch: own.unwrap_or(settings.epoch),
                copying: Copying { piece: Some(DISK_PIECE), ..settings.copying },
                ..settings
            },
        })
    }

    /// A share of the volume, and a sixteenth of it for metadata and spare room; whole chunks.
    fn pool_size(&self, sixteenths: u64) -> Bytes {
        let share = self.size.0.div_ceil(16) * (sixteenths + 1);
        Bytes(share.next_multiple_of(Settings::default().chunk_size.0)).max(POOL_BYTES_MIN)
    }
}
