//! Writes the first inputs of every target into `fuzz/corpus/`: small traces made here, plain and
//! packed.
//!
//! `cargo run --manifest-path fuzz/Cargo.toml --example seeds`

use std::net::{IpAddr, Ipv4Addr};
use std::{fs, io, path::Path};
use thermocline_advice::{Advice, Datagram, Hint, Priority, Said};
use thermocline_functions::nat::{self, Nat};
use thermocline_functions::packet::build;
use thermocline_functions::{Function, Output, Part, Side};
use thermocline_trace::recording::{
    Access, Ask, Asked, Encoder, Epoch, Homes, Packer, PoolFill, SecondCopy,
};
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, VolumeId};

/// Target and text of its format.
const TEXTS: [(&str, &str); 13] = [
    (
        "msr",
        "128166372003061629,hm,0,Read,383496192,32768,1331\n\
         128166372003061600,hm,1,Write,4096,512,0\n",
    ),
    ("spc", "0,20941264,8192,W,0.551706\n1,3436288,15872,r,1.011732,x\n"),
    (
        "systor17",
        "Timestamp,Response,IOType,LUN,Offset,Size\n\
         1455592201.145254,0.000123,W,4,1105965056,8192\n1455592201.2,,R,4,0,512\n",
    ),
    ("alibaba", "419,W,8792731648,16384,1577808144360767\n725,R,0,4096,1577808144360813\n"),
    ("tencent", "1538323201,4247232,128,1,1058\n1538323200,13896880,128,0,1063\n"),
    (
        "fiu",
        "89966522969723 4270 rpc.mountd 18579576 8 W 6 0 d6c75ba46e82326fefa545b57a12e221\n\
         89966522969724 1 a b 8 1 R 6 0 d6c75ba46e82326fefa545b57a12e221\n",
    ),
    (
        "blkparse",
        "  8,0    1        1     0.000000000  1234  Q  WS 2048 + 8 [proc]\n  \
         8,0    1        2     0.000001000  1234  Q FWS [jbd2]\n  \
         8,0    1        3     0.000002000  1234  Q  FN [jbd2]\nCPU0 (8,0):\n Reads\n",
    ),
    (
        "fio_iolog",
        "fio version 2 iolog\nf add\nf open\nf wait 4 0\nf read 0 4096\nf sync 0 0\nf close\n",
    ),
    ("fio_iolog", "fio version 3 iolog\n1 f add\n2 f open\n3 f write 0 4096\n4 f trim 0 512\n"),
    ("arc", "230027 8 0 0\n1842745 64 0 1\n"),
    ("capture", "0,F,0,0,\n9,W,4096,8192,3190efdeefc369ae0000000000000001\n10,T,8192,4096,\n"),
    (
        "csv",
        "time=when:ms,volume=who,offset=lba:512,size=2:4KiB,op=what,sep=pipe,trim=erase\n\
         when|who|n|lba|what\n1.5|\"a\"\"b\"|8|1|R\n2|b|1|7|erase\n",
    ),
    ("csv", "offset=0,size=fixed:4KiB,hashes=1\n0,00ff;01\n4096,\n"),
];

/// Caches of a tunnel without and with a chunk; their checksums are the target's to add.
fn saved_caches() -> io::Result<[Vec<u8>; 2]> {
    let mut empty = Vec::new();
    thermocline_tunnel::Cache::new(Bytes::from_kib(64), [1; 16], 1).write_saved(&mut empty)?;
    empty.truncate(empty.len() - 8);
    let mut one = empty.clone();
    one[56] = 1;
    one[64] = 1;
    let (name, fingerprint, length) = (0_u64, 7_u64, 5_u32);
    one.extend(name.to_le_bytes());
    one.extend(fingerprint.to_le_bytes());
    one.extend(length.to_le_bytes());
    one.extend(b"chunk");
    Ok([empty, one])
}

fn main() -> io::Result<()> {
    let mut seeds: Vec<(&str, Vec<u8>)> =
        TEXTS.iter().map(|(target, text)| (*target, text.as_bytes().to_vec())).collect();
    seeds.push(("vscsi", vscsi(1)));
    seeds.push(("vscsi", vscsi(2)));
    seeds.push(("oracle_general", oracle_general()));
    seeds.push(("parquet", b"PAR1PAR1".to_vec()));
    seeds.push(("recording", [vec![1], recording()].concat()));
    let (offset, length, unsent) = (4096, 8192, 1);
    let hint = Hint { pin: true, stream: 7, usage: 2, life: 5, ..Hint::default() };
    let advice = Said::Advice(Advice::WillNeed);
    let priority = Said::Priority(Priority::Idle);
    for said in [advice, Said::ReadAhead, Said::Life(2), priority, Said::Hint(hint)] {
        seeds.push(("advice", Datagram { offset, length, unsent, said }.encode().to_vec()));
    }
    seeds.extend(saved_caches()?.map(|saved| ("tunnel_cache", saved)));
    let plan = b"\0format = 1\npolicies = [\"lru\"]\nsizes = [\"10%\"]\n[[traces]]\n\
        family = \"made\"\nsynth = [\"web,requests=10k\"]\n";
    seeds.push(("sweep", plan.to_vec()));
    let job = b"\x01{\"number\":1,\"family\":\"made\",\"name\":\"web\",\
        \"trace\":{\"synth\":\"web\"},\"seed\":1}\n";
    seeds.push(("sweep", job.to_vec()));
    seeds.push(("load_report", b"queue=3, arrivals=1207, balancers=2, age=0.25".to_vec()));
    seeds.push(("load_report", br#"{"queue": 3, "arrivals": 1207, "age_s": 0.25}"#.to_vec()));
    for placement in [0, 2, 4, 6, 8, 10] {
        seeds.push(("recording", [vec![placement], records()].concat()));
    }
    for image in 0..4 {
        // Nothing changed; and one byte of a block that every image has something in.
        seeds.push(("filesystem", vec![image]));
        seeds.push(("filesystem", vec![image, 0, 4, 0, 1, 0]));
    }
    seeds.extend(packets());
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for (index, (target, bytes)) in seeds.iter().enumerate() {
        for target in [target, "open"] {
            let folder = corpus.join(target);
            fs::create_dir_all(&folder)?;
            fs::write(folder.join(format!("seed-{index}")), bytes)?;
        }
        fs::write(corpus.join("open").join(format!("seed-{index}-gzip")), stored_gzip(bytes))?;
    }
    Ok(())
}

/// Packets, a NAT that gets all of them from inside, a service header, rules, and a state.
fn packets() -> Vec<(&'static str, Vec<u8>)> {
    let end = |n, port| (IpAddr::V4(Ipv4Addr::new(10, 0, 0, n)), port);
    let ends = (end(2, 2000), end(9, 80));
    let udp = build::udp(ends, b"payload.payload.");
    let mut packets = build::fragments(&udp, 16, 7);
    packets.push(build::tcp(ends, 2, 1, b""));
    packets.push(build::echo(ends, true, b"ping"));
    packets.push(build::unreachable(ends.1.0, ends.0.0, &udp));
    packets.push(udp);
    let told = packets.iter().flat_map(|packet| [&[0, packet.len() as u8][..], packet].concat());
    let mut seeds = vec![("nat", std::iter::once(0).chain(told).collect())];
    let mut header = vec![0x0f, 0xc6, 1, 1, 0, 0, 42, 255];
    header.resize(24, 0);
    seeds.push(("nsh", header));
    let rules = "var H [10.0.0.0/8,!10.1.0.0/16]\n\
                 drop tcp $H any -> any any (content:\"ab|63|\"; nocase; content:\"e\"; distance:1; \
                 within:4; sid:1;)\n\
                 alert tcp any any <> any 1:80 (flow:to_server; pcre:\"/ab?c+/i\"; sid:2;)";
    seeds.push(("dpi_rules", rules.into()));
    let settings = nat::Settings::new(vec![Ipv4Addr::new(203, 0, 113, 1)]);
    let mut nat = Nat::new(settings).expect("settings that fit");
    let (mut state, mut syn) = (Vec::new(), build::tcp(ends, 2, 1, b""));
    nat.process(Nanos(0), Side::Inside, &mut syn, &mut Output::default());
    nat.export(Nanos(0), Part::All, &mut state);
    seeds.push(("flow_state", state));
    seeds.extend(packets.into_iter().map(|packet| ("packet", packet)));
    seeds
}

/// A short recording: a request seen at once, one seen late, an epoch with a view and a move.
fn recording() -> Vec<u8> {
    let mut encoder = Encoder::new(Bytes::from_mib(1), &[("thermocline.x".into(), "y".into())]);
    encoder.placed(Nanos(1), "baseline:k=2");
    tell(&mut encoder);
    encoder.end();
    let mut packer = Packer::default();
    let mut file = packer.head();
    while let Some(block) = encoder.take_block() {
        file.extend(packer.pack(&block));
    }
    file
}

/// The records of that.
fn records() -> Vec<u8> {
    let mut encoder = Encoder::new(Bytes::from_mib(1), &[]);
    tell(&mut encoder);
    encoder.end();
    encoder.take_block();
    std::iter::from_fn(|| encoder.take_block()).flatten().collect()
}

fn tell(encoder: &mut Encoder) {
    let chunk = |index| ChunkId { volume: VolumeId(0), index };
    let pool = PoolFill { capacity: 4, used: 1, figures: vec![300; 17] };
    for turn in 0..3u64 {
        let at = Nanos(turn * 1_000_000_000);
        let (offset, length) = (Bytes::from_mib(turn), Bytes::from_kib(64));
        let volume = VolumeId(0);
        let asked = Asked { at, volume, ask: Ask::Write, offset, length, forced: turn == 1 };
        let number = encoder.asked(&asked);
        let at = Nanos(at.0 + turn);
        let (chunk_id, offset) = (chunk(turn as u32), Bytes(0));
        encoder.accessed(&Access { at, chunk: chunk_id, offset, bytes: length, write: true });
        encoder.answered(number, Nanos(90_000), turn != 1);
        let (length, pools) = (Some(Nanos(1_000_000_000)), vec![pool.clone(); 3]);
        encoder.epoch(&Epoch { at, budget: u64::MAX, volumes: 1, length, pools });
        let pool = PoolId(turn as u16 % 3);
        let second = [None, Some(SecondCopy::Kept(PoolId(2))), Some(SecondCopy::Mirror(PoolId(0)))];
        let second = second[turn as usize];
        encoder.homes(&Homes { chunk: chunk(0), count: 3, pool: Some(pool), second });
        encoder.proposed(chunk(1), PoolId(0), turn == 2);
        encoder.epoch_ended();
    }
}

fn vscsi(version: u16) -> Vec<u8> {
    let mut records = Vec::new();
    for (opcode, block) in [(0x28u16, 8u64), (0x2a, 16), (0x35, 0), (0x12, 0)] {
        let tag = [opcode.to_le_bytes(), (version << 8).to_le_bytes()].concat();
        let numbers: Vec<u8> = [7u32, 4096, 1].iter().flat_map(|n| n.to_le_bytes()).collect();
        records.extend(if version == 1 {
            [numbers, tag].concat()
        } else {
            [tag, numbers].concat()
        });
        records.extend(block.to_le_bytes());
        records.extend(1_000_000u64.to_le_bytes());
        if version == 2 {
            records.extend(250u64.to_le_bytes());
        }
    }
    records
}

fn oracle_general() -> Vec<u8> {
    let mut records = Vec::new();
    for (seconds, id, next) in [(0u32, 5u64, 2i64), (1, 1 << 60, -1), (1, 5, -1)] {
        records.extend(seconds.to_le_bytes());
        records.extend(id.to_le_bytes());
        records.extend(4096u32.to_le_bytes());
        records.extend(next.to_le_bytes());
    }
    records
}

/// gzip of one stored block, whose checksum the fuzzer will soon learn to break.
fn stored_gzip(bytes: &[u8]) -> Vec<u8> {
    let length = bytes.len() as u16;
    let mut packed = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255, 1];
    packed.extend(length.to_le_bytes());
    packed.extend((!length).to_le_bytes());
    packed.extend(bytes);
    packed.extend(crc32(bytes).to_le_bytes());
    packed.extend(u32::from(length).to_le_bytes());
    packed
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
        })
    })
}
