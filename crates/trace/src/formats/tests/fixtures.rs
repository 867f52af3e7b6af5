//! One small trace of each format, written by hand.

use crate::Format;

pub(super) const MSR: &[u8] = b"\
128166372003061629,hm,0,Read,383496192,32768,1331\n\
128166372016382155,hm,0,Write,310983168,4096,0\n\
128166372016382100,hm,1,Read,4096,512,88\n\
128166372026382245,src1,0,Write,310987264,8192,1326\n";

pub(super) const SPC: &[u8] = b"\
0,20941264,8192,W,0.551706\n\
0,20939840,8192,w,0.554041\n\
1,3436288,15872,r,1.011732\n";

pub(super) const SYSTOR17: &[u8] = b"\
Timestamp,Response,IOType,LUN,Offset,Size\n\
1455592201.145254000,0.000123456,W,4,1105965056,8192\n\
1455592201.145300,,R,4,1105973248,4096\n\
1455592202,0.5,R,6,0,512\n";

pub(super) const ALIBABA: &[u8] = b"\
419,W,8792731648,16384,1577808144360767\n\
725,R,59110326272,360448,1577808144360813\n\
419,R,8792731648,4096,1577808144361000\n";

pub(super) const TENCENT: &[u8] = b"\
1538323201,4247232,128,1,1058\n\
1538323200,13896880,128,0,1063\n\
1538323200,49413280,16,0,1063\n";

pub(super) const FIU: &[u8] = b"\
89966522969723 4270 rpc.mountd 18579576 8 W 6 0 d6c75ba46e82326fefa545b57a12e221\n\
89966527950584 4253 kworker thread 508516672 16 R 6 1 \
88b93b628d84082186026d9da044f173b5e9f4e5ab62a4fff5313a606b0ad4e3\n\
89966527950584 1 sh 8 2 W 6 0 \
bf619eac0cdf3f68d496ea9344137e8bbf619eac0cdf3f68d496ea9344137e8b\n";

pub(super) const BLKPARSE: &[u8] = b"  \
8,0    1        1     0.000000000  1234  Q  WS 2048 + 8 [proc one]\n  \
8,0    1        2     0.000001500  1234  G  WS 2048 + 8 [proc one]\n  \
8,0    1        0     0.000001600     0  m   N cfq1234S / alloced\n  \
8,16   0        3     0.000002000  1234  Q FWS [jbd2]\n  \
8,16   0        4     0.000002500  1234  Q  FN [jbd2]\n  \
8,0    1        5     0.100000000  1234  P   N [proc one]\n  \
8,0    1        6     0.100000001  1234  Q  RA 4096 + 256 [cat]\n  \
8,0    1        7     0.100000002  1234  Q  DS 0 + 8192 [fstrim]\n  \
8,0    1        8     0.200000000     0  C  RA 4096 + 256 [0]\n\
CPU1 (sda):\n \
Reads Queued:           1,      128KiB\t Writes Queued:           1,        4KiB\n\
\n\
Total (sda):\n \
Reads Queued:           1,      128KiB\t Writes Queued:           1,        4KiB\n\
Events (8,0): 9 entries\n\
Skips: 0 forward (0 -   0.0%)\n";

pub(super) const FIO_V2: &[u8] = b"\
fio version 2 iolog\n\
/dev/sdb add\n\
/dev/sdb open\n\
/dev/sdb read 0 4096\n\
/dev/sdb wait 4\n\
/dev/sdb write 8192 512\n\
/dev/sdb wait 3 0\n\
/dev/sdb datasync 0 0\n\
/dev/sdb trim 1048576 65536\n\
/dev/sdb close\n";

pub(super) const FIO_V3: &[u8] = b"\
fio version 3 iolog\n\
2 a add\n\
3 b add\n\
5 a open\n\
872 b read 16384 4096\n\
878 a write 0 16384\n\
879 a sync 0 0\n\
1000 a close\n";

pub(super) const ARC: &[u8] = b"\
230027 8 0 0\n\
1842745 64 0 1\n\
216082 8 0 2\n";

pub(super) const CAPTURE: &[u8] = b"\
100,F,0,0,\n\
1026899838,W,4096,8192,3190efdeefc369ae0000000000000001\n\
1027007689,R,0,512,3190efdeefc369ae\n\
1027241788,T,8192,4096,\n";

pub(super) const OWN_CSV: &[u8] = b"\
time_ns,volume,op,offset_bytes,length_bytes,response_ns,hashes\n\
0,hm.0,read,0,4096,1500,3190efdeefc369ae0000000000000000\n\
10,\"a,\"\"b\"\"\",write,4096,8192,,\
00000000000000000000000000000001;00000000000000000000000000000002\n\
10,hm.0,flush,0,0,,\n";

/// One record of vscsi version 1.
fn vscsi_v1(opcode: u16, length: u32, block: u64, micros: u64) -> Vec<u8> {
    let mut record = Vec::new();
    record.extend(7u32.to_le_bytes());
    record.extend(length.to_le_bytes());
    record.extend(1u32.to_le_bytes());
    record.extend(opcode.to_le_bytes());
    record.extend(0x0100u16.to_le_bytes());
    record.extend(block.to_le_bytes());
    record.extend(micros.to_le_bytes());
    record
}

pub(super) fn vscsi_one() -> Vec<u8> {
    [
        vscsi_v1(0x2a, 512, 42_932_745, 5_633_898_368_802),
        vscsi_v1(0x28, 4096, 8, 5_633_898_368_800),
        vscsi_v1(0x12, 96, 0, 5_633_898_368_900),
        vscsi_v1(0x88, 65_536, 16, 5_633_898_368_903),
        vscsi_v1(0x35, 0, 0, 5_633_898_369_000),
        vscsi_v1(0x28, 0, 0, 5_633_898_369_000),
    ]
    .concat()
}

pub(super) fn vscsi_two() -> Vec<u8> {
    let mut records = Vec::new();
    for (opcode, length, block, micros, response) in
        [(0x28u16, 4096u32, 8u64, 1000u64, 250u64), (0x8a, 512, 0, 1010, 0)]
    {
        records.extend(opcode.to_le_bytes());
        records.extend(0x0200u16.to_le_bytes());
        records.extend(7u32.to_le_bytes());
        records.extend(length.to_le_bytes());
        records.extend(1u32.to_le_bytes());
        records.extend(block.to_le_bytes());
        records.extend(micros.to_le_bytes());
        records.extend(response.to_le_bytes());
    }
    records
}

pub(super) fn oracle_general() -> Vec<u8> {
    let mut records = Vec::new();
    for (seconds, id, size, next) in [
        (100u32, 42_932_745u64, 512u32, 3i64),
        (100, (3 << 53) + 5, 4096, -1),
        (99, 1, 0, -1),
        (102, 42_932_745, 512, i64::MAX),
    ] {
        records.extend(seconds.to_le_bytes());
        records.extend(id.to_le_bytes());
        records.extend(size.to_le_bytes());
        records.extend(next.to_le_bytes());
    }
    records
}

/// Every fixture that opens without a word on the format, and its format.
pub(super) fn all() -> Vec<(Format, Vec<u8>)> {
    vec![
        (Format::Msr, MSR.to_vec()),
        (Format::Spc, SPC.to_vec()),
        (Format::Systor17, SYSTOR17.to_vec()),
        (Format::Alibaba, ALIBABA.to_vec()),
        (Format::Tencent, TENCENT.to_vec()),
        (Format::Fiu, FIU.to_vec()),
        (Format::Blkparse, BLKPARSE.to_vec()),
        (Format::FioIolog, FIO_V2.to_vec()),
        (Format::FioIolog, FIO_V3.to_vec()),
        (Format::Arc, ARC.to_vec()),
        (Format::Capture, CAPTURE.to_vec()),
        (Format::Csv, OWN_CSV.to_vec()),
        (Format::Vscsi, vscsi_one()),
        (Format::Vscsi, vscsi_two()),
        (Format::OracleGeneral, oracle_general()),
    ]
}
