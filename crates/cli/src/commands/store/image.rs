//! `thermocline store image import`: a raw image becomes a snapshot of a running store.
//!
//! The bytes go into a volume of their own, `NAME.importing`, of which the snapshot `NAME` is made
//! when all of them are there. While that volume is there, another import of the name is refused:
//! one may be under way, and two of them would mix their bytes.

use super::admin::line;
use super::{StoreArgs, volume_name};
use crate::error::CliError;
use crate::progress::{Progress, Unit};
use hyper::Method;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use thermocline_admin::client::{CallError, Client};
use thermocline_hostcache::BLOCK_BYTES;
use thermocline_hosting::api::{NewClone, NewStoreVolume, StoreVolume};

/// Bytes that go at once.
const PART_BYTES: usize = 1 << 20;
/// Bytes behind a name while it is imported.
const SUFFIX: &str = ".importing";

/// Images: import.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Make a snapshot of a raw image; clones of it begin with its contents.
    Import {
        #[command(flatten)]
        store: StoreArgs,
        /// The image: a file or a block device, as it is (convert others with `qemu-img convert -O
        /// raw`).
        file: PathBuf,
        /// The snapshot's name.
        #[arg(value_parser = volume_name)]
        name: String,
        /// Domain: blocks are shared within one, and nobody learns what others hold.
        #[arg(long, value_name = "N", default_value_t = 0)]
        domain: u32,
    },
}

pub(super) fn run(args: Args) -> Result<(), CliError> {
    let Command::Import { store, file, name, domain } = args.command;
    let failed = |error| CliError::input(format!("{}: {error}", file.display()));
    let mut image = File::open(&file).map_err(failed)?;
    let length = image.seek(SeekFrom::End(0)).map_err(failed)?;
    image.rewind().map_err(failed)?;
    if length == 0 {
        return Err(CliError::input(format!("{}: it is empty", file.display())));
    }
    refuse_formats(&mut image, &file)?;
    let temporary = format!("{name}{SUFFIX}");
    let temporary = volume_name(&temporary).map_err(CliError::input)?;
    let client = store.client();
    let there: Vec<StoreVolume> = client.get("/v1/volumes")?;
    if there.iter().any(|volume| volume.name == name) {
        return Err(CliError::input(format!("there is a volume `{name}` already")));
    }
    if there.iter().any(|volume| volume.name == temporary) {
        return Err(CliError::input(format!(
            "there is a volume `{temporary}`: an import of `{name}` is under way, or one was cut \
             off. In that case delete what it left: thermocline store delete {temporary}"
        )));
    }
    let path = format!("/v1/volumes/{temporary}");
    let size_bytes = length.next_multiple_of(BLOCK_BYTES as u64);
    let wish = NewStoreVolume {
        name: temporary,
        size_bytes,
        domain,
        logical_quota_bytes: None,
        physical_quota_bytes: None,
    };
    let _: StoreVolume = client.send(Method::POST, "/v1/volumes", &wish)?;
    let made = copy(&client, &path, &mut image, (&file, length)).and_then(|()| {
        let wish = NewClone { name, read_only: true };
        Ok(client.send::<StoreVolume>(Method::POST, &format!("{path}/clones"), &wish)?)
    });
    // Of the bytes the snapshot has all.
    let cleared = client.order(Method::DELETE, &path);
    let made = made?;
    cleared?;
    // The volume that it was made of is gone.
    store.answer(&StoreVolume { origin: None, ..made }, line)
}

/// Marks of formats of images at the begin of the file, with their places. A fixed VHD has its mark
/// at the end, and is raw before it.
const FORMATS: [(usize, &[u8], &str); 8] = [
    (0, b"QFI\xfb", "qcow"),
    (0, b"KDMV", "VMDK"),
    (0, b"COWD", "VMDK"),
    (0, b"# Disk DescriptorFile", "VMDK descriptor"),
    (0, b"vhdxfile", "VHDX"),
    (0, b"conectix", "dynamic VHD"),
    (0, b"QED\0", "QED"),
    (64, b"\x7f\x10\xda\xbe", "VDI"),
];

/// An image in a format would be imported with its tables: nobody wants that.
fn refuse_formats(image: &mut File, file: &Path) -> Result<(), CliError> {
    let mut head = Vec::new();
    let failed = |error| CliError::input(format!("{}: {error}", file.display()));
    image.by_ref().take(512).read_to_end(&mut head).map_err(failed)?;
    image.rewind().map_err(failed)?;
    let has = |at: usize, mark: &[u8]| head.get(at..).is_some_and(|rest| rest.starts_with(mark));
    match FORMATS.iter().map(|(at, mark, format)| (has(*at, mark), format)).find(|(has, _)| *has) {
        None => Ok(()),
        Some((_, format)) => Err(CliError::input(format!(
            "{}: this is a {format} image; convert it first: qemu-img convert -O raw",
            file.display()
        ))),
    }
}

fn copy(
    client: &Client,
    path: &str,
    image: &mut File,
    (file, length): (&Path, u64),
) -> Result<(), CliError> {
    let failed = |error| CliError::failed(format!("{}: {error}", file.display()));
    let progress = Progress::bar(Some(length), Unit::Bytes, "importing");
    let mut at = 0;
    while at < length {
        let mut part = Vec::with_capacity(PART_BYTES);
        image.by_ref().take(PART_BYTES as u64).read_to_end(&mut part).map_err(failed)?;
        if part.is_empty() {
            return Err(CliError::failed(format!("{}: it became shorter", file.display())));
        }
        let read = part.len() as u64;
        part.resize(part.len().next_multiple_of(BLOCK_BYTES), 0);
        // Zeroes are there already.
        if part.iter().any(|&byte| byte != 0) {
            let sent: Result<(), CallError> =
                client.put(&format!("{path}/data?offset_bytes={at}"), part);
            sent?;
        }
        at += read;
        progress.at(at);
    }
    Ok(())
}
