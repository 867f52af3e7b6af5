//! Small file systems, made byte by byte: one of each kind that the readers know, each of 1 MiB.
//!
//! Each has what its reader walks: tables, trees of two levels, directories in every form, a
//! journal with a transaction. None has a checksum that would have to be right. They are what mkfs
//! would make only as far as a reader looks.

/// Bytes of an image.
pub const SIZE: usize = 1 << 20;

/// Every image with its name.
pub fn all() -> [(&'static str, Vec<u8>); 4] {
    [("ext4", ext()), ("xfs", xfs(false)), ("xfs-5", xfs(true)), ("btrfs", btrfs())]
}

/// Puts bytes at `at`.
fn put(image: &mut [u8], at: usize, bytes: &[u8]) {
    image[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Puts little-endian numbers of 32 bits one behind the other.
fn little(image: &mut [u8], at: usize, numbers: &[u32]) {
    for (index, number) in numbers.iter().enumerate() {
        put(image, at + index * 4, &number.to_le_bytes());
    }
}

/// The same big-endian.
fn big(image: &mut [u8], at: usize, numbers: &[u32]) {
    for (index, number) in numbers.iter().enumerate() {
        put(image, at + index * 4, &number.to_be_bytes());
    }
}

const KIB: usize = 1024;

/// ext4 with blocks of 1 KiB: files with extents in the inode and in a tree, one with a block map,
/// and a directory whose newest state is in the journal.
fn ext() -> Vec<u8> {
    let mut image = vec![0; SIZE];
    let head = &mut image[KIB..2 * KIB];
    little(head, 0x00, &[32, 1024]);
    little(head, 0x14, &[1, 0, 0, 8192, 8192, 32]);
    put(head, 0x38, &0xef53_u16.to_le_bytes());
    little(head, 0x4c, &[1]);
    little(head, 0x54, &[11, 128, 0x4, 0x42, 0x1]);
    little(head, 0xe0, &[8]);
    little(&mut image, 2 * KIB, &[3, 4, 5]);
    put(&mut image, 4 * KIB, &[0xff, 0x3f]);

    let inode = |number: usize| 5 * KIB + (number - 1) * 128;
    let mut make = |number: usize, (mode, size, flags): (u16, u32, u32), map: &[u32]| {
        let at = inode(number);
        put(&mut image, at, &mode.to_le_bytes());
        little(&mut image, at + 4, &[size]);
        put(&mut image, at + 0x1a, &1_u16.to_le_bytes());
        little(&mut image, at + 0x20, &[flags]);
        little(&mut image, at + 0x28, map);
    };
    const EXTENTS: u32 = 0x8_0000;
    let tree = |depth: u32, count: u32| [count << 16 | 0xf30a, depth << 16 | 4, 0];
    let direct: Vec<u32> = (40..52).chain([60]).collect();
    make(2, (0x41ed, 1024, 0), &[9]);
    make(8, (0x8180, 8192, 0), &[16, 17, 18, 19, 20, 21, 22, 23]);
    make(12, (0x81a4, 3000, EXTENTS), &[&tree(0, 1)[..], &[0, 3, 30]].concat());
    make(13, (0x81a4, 14 * 1024, 0), &direct);
    make(14, (0x81a4, 9000, EXTENTS), &[&tree(1, 1)[..], &[0, 70, 0]].concat());
    little(&mut image, 60 * KIB, &[61, 62]);
    let leaf = [&tree(0, 2)[..], &[0, 4, 80, 6, 0x8003, 90]].concat();
    little(&mut image, 70 * KIB, &leaf);

    let names = [(2_u32, "."), (2, ".."), (12, "file"), (13, "mapped"), (14, "tree")];
    let mut directory = vec![0; KIB];
    let mut at = 0;
    for (inode, name) in names {
        let size = if name == "tree" { KIB - at } else { (8 + name.len()).next_multiple_of(4) };
        little(&mut directory, at, &[inode, (name.len() as u32) << 16 | size as u32]);
        put(&mut directory, at + 8, name.as_bytes());
        at += size;
    }
    // The journal: a transaction with this block in it, which is not at its place yet.
    const MAGIC: u32 = 0xc03b_3998;
    big(&mut image, 16 * KIB, &[MAGIC, 4, 0, KIB as u32, 8, 1, 5, 1]);
    big(&mut image, 17 * KIB, &[MAGIC, 1, 5, 9, 0xa]);
    put(&mut image, 18 * KIB, &directory);
    big(&mut image, 19 * KIB, &[MAGIC, 2, 5]);
    image
}

const BLOCK: usize = 4096;

/// Differences between versions 4 and 5 of XFS.
#[derive(Clone, Copy)]
struct Xfs {
    is_v5: bool,
    inode_size: usize,
    /// Bits of an inode's number inside its block.
    bits: u8,
    /// Offset of an inode's forks.
    forks: usize,
}

/// XFS of one group with blocks of 4 KiB: a file with a list of extents and one with a tree of
/// them, directories in the inode and in a block, a symbolic link.
fn xfs(is_v5: bool) -> Vec<u8> {
    let xfs = match is_v5 {
        true => Xfs { is_v5, inode_size: 512, bits: 3, forks: 176 },
        false => Xfs { is_v5, inode_size: 256, bits: 4, forks: 100 },
    };
    let mut image = vec![0; SIZE];
    xfs.heads(&mut image);
    xfs.inodes(&mut image);
    xfs.extent_tree(&mut image);
    xfs.directory(&mut image);
    image
}

/// A record of an extent: which block of the file, where, how many.
fn record(logical: u64, block: u64, count: u64) -> Vec<u8> {
    [(logical << 9).to_be_bytes(), (block << 21 | count).to_be_bytes()].concat()
}

impl Xfs {
    /// An inode's number by its place in the one cluster.
    fn number(self, index: u32) -> u32 {
        (4_u32 << self.bits) + index
    }

    /// The type that follows a name in version 5.
    fn kind(self) -> &'static [u8] {
        if self.is_v5 { &[1] } else { &[] }
    }

    /// Superblock, headers of the group, and the tree of inodes with its one cluster.
    fn heads(self, image: &mut [u8]) {
        put(image, 0, b"XFSB");
        big(image, 4, &[BLOCK as u32, 0, 256]);
        big(image, 48, &[0, 200, 0, self.number(0)]);
        big(image, 84, &[256, 1, 0, 16]);
        let version = if self.is_v5 { 0xa005_u16 } else { 0xa004 };
        put(image, 100, &version.to_be_bytes());
        put(image, 102, &512_u16.to_be_bytes());
        put(image, 104, &(self.inode_size as u16).to_be_bytes());
        put(image, 120, &[12, 9, 12 - self.bits, self.bits, 8]);
        big(image, 212, &[0, u32::from(self.is_v5)]);
        put(image, 512, b"XAGF");
        big(image, 516, &[1, 0, 256, 1, 2, 0, 1, 1, 0, 0, 0, 1]);
        put(image, 1024, b"XAGI");
        big(image, 1028, &[1, 0, 256, 64, 3, 1]);
        big(image, 1536 + if self.is_v5 { 36 } else { 0 }, &[100]);
        let front = if self.is_v5 { 56 } else { 16 };
        put(image, 3 * BLOCK, if self.is_v5 { b"IAB3" } else { b"IABT" });
        put(image, 3 * BLOCK + 6, &[0, 1]);
        big(image, 3 * BLOCK + front, &[self.number(0), 59, u32::MAX, !0x1f]);
    }

    fn inodes(self, image: &mut [u8]) {
        let mut make =
            |index: u32, (mode, form, size, extents): (u16, u8, u64, u32), fork: &[u8]| {
                let at = 4 * BLOCK + index as usize * self.inode_size;
                put(image, at, b"IN");
                put(image, at + 2, &mode.to_be_bytes());
                put(image, at + 4, &[if self.is_v5 { 3 } else { 2 }, form]);
                big(image, at + 16, &[1]);
                put(image, at + 56, &size.to_be_bytes());
                big(image, at + 76, &[extents]);
                if self.is_v5 {
                    put(image, at + 152, &u64::from(self.number(index)).to_be_bytes());
                }
                put(image, at + self.forks, fork);
            };
        let mut short = vec![3, 0];
        short.extend(self.number(0).to_be_bytes());
        for (index, name) in [(1, "file"), (2, "tree"), (3, "wide")] {
            short.extend([name.len() as u8, 0, 0]);
            short.extend(name.as_bytes());
            short.extend(self.kind());
            short.extend(self.number(index).to_be_bytes());
        }
        let mut root = vec![0; self.inode_size - self.forks];
        root[..4].copy_from_slice(&[0, 1, 0, 1]);
        let most = (root.len() - 4) / 16;
        root[4 + most * 8..][..8].copy_from_slice(&30_u64.to_be_bytes());
        make(0, (0o040_755, 1, short.len() as u64, 0), &short);
        make(1, (0o100_644, 2, 9000, 1), &record(0, 50, 3));
        make(2, (0o100_644, 3, 40_000, 2), &root);
        make(3, (0o040_755, 2, 4096, 1), &record(0, 40, 1));
        make(4, (0o120_777, 1, 6, 0), b"target");
    }

    fn extent_tree(self, image: &mut [u8]) {
        let front = if self.is_v5 { 72 } else { 24 };
        put(image, 30 * BLOCK, if self.is_v5 { b"BMA3" } else { b"BMAP" });
        put(image, 30 * BLOCK + 6, &[0, 2]);
        if self.is_v5 {
            put(image, 30 * BLOCK + 56, &u64::from(self.number(2)).to_be_bytes());
        }
        let records = [record(0, 60, 4), record(7, 70, 3)].concat();
        put(image, 30 * BLOCK + front, &records);
    }

    fn directory(self, image: &mut [u8]) {
        let (block, mut at) = (40 * BLOCK, if self.is_v5 { 64 } else { 16 });
        put(image, block, if self.is_v5 { b"XDB3" } else { b"XD2B" });
        if self.is_v5 {
            put(image, block + 40, &u64::from(self.number(3)).to_be_bytes());
        }
        for (index, name) in [(3, "."), (0, ".."), (4, "link")] {
            put(image, block + at, &u64::from(self.number(index)).to_be_bytes());
            put(image, block + at + 8, &[name.len() as u8]);
            put(image, block + at + 9, name.as_bytes());
            at += (8 + 1 + name.len() + self.kind().len() + 2).next_multiple_of(8);
        }
        let free = (BLOCK - 8 - 3 * 8 - at) as u16;
        put(image, block + at, &[0xff, 0xff]);
        put(image, block + at + 2, &free.to_be_bytes());
        big(image, block + BLOCK - 8, &[3, 0]);
    }
}

/// A key of btrfs.
fn key(object: u64, kind: u8, offset: u64) -> Vec<u8> {
    [&object.to_le_bytes()[..], &[kind], &offset.to_le_bytes()].concat()
}

const NODE: usize = 4096;
const GENERATION: u64 = 7;

/// Puts a node with its head; what it points at, or holds, follows.
fn node(image: &mut [u8], at: usize, level: u8, count: u32) {
    put(image, at + 48, &(at as u64).to_le_bytes());
    put(image, at + 80, &GENERATION.to_le_bytes());
    little(image, at + 96, &[count]);
    image[at + 100] = level;
}

fn leaf(image: &mut [u8], at: usize, items: &[(Vec<u8>, Vec<u8>)]) {
    node(image, at, 0, items.len() as u32);
    let mut end = NODE - 101;
    for (index, (key, item)) in items.iter().enumerate() {
        end -= item.len();
        let entry = at + 101 + index * 25;
        put(image, entry, key);
        little(image, entry + 17, &[end as u32, item.len() as u32]);
        put(image, at + 101 + end, item);
    }
}

fn inner(image: &mut [u8], at: usize, level: u8, children: &[(Vec<u8>, usize)]) {
    node(image, at, level, children.len() as u32);
    for (index, (key, child)) in children.iter().enumerate() {
        let entry = at + 101 + index * 33;
        put(image, entry, key);
        put(image, entry + 17, &(*child as u64).to_le_bytes());
        put(image, entry + 25, &GENERATION.to_le_bytes());
    }
}

/// An item of `length` bytes with numbers of 64 bits at their places.
fn item(length: usize, numbers: &[(usize, u64)]) -> Vec<u8> {
    let mut item = vec![0; length];
    for (at, number) in numbers {
        let width = (length - at).min(8);
        item[*at..at + width].copy_from_slice(&number.to_le_bytes()[..width]);
    }
    item
}

/// btrfs whose addresses are places: chunk, root, extent and file tree, the last of two levels, and
/// a snapshot that shares a leaf with it.
fn btrfs() -> Vec<u8> {
    let mut image = vec![0; SIZE];
    let at = |number: usize| (128 << 10) + number * NODE;
    let chunk = item(80, &[(0, SIZE as u64), (24, 1), (44, 1), (48, 1)]);
    let head = 64 << 10;
    put(&mut image, head + 64, b"_BHRfS_M");
    let number = |image: &mut [u8], place: usize, number: u64| {
        put(image, head + place, &number.to_le_bytes());
    };
    for (place, value) in [(48, head as u64), (72, GENERATION), (80, at(1) as u64)] {
        number(&mut image, place, value);
    }
    for (place, value) in [(88, at(0) as u64), (136, 1), (164, GENERATION), (201, 1)] {
        number(&mut image, place, value);
    }
    number(&mut image, 209, SIZE as u64);
    little(&mut image, head + 144, &[4096, NODE as u32]);
    little(&mut image, head + 160, &[97]);
    image[head + 196] = 1; // XXHASH64, which is not verified
    put(&mut image, head + 811, &[key(256, 228, 0), chunk.clone()].concat());

    leaf(&mut image, at(0), &[(key(256, 228, 0), chunk)]);
    let root = |place: usize, level: u64| {
        let numbers = [(160, GENERATION), (176, place as u64), (216, 1), (238, level)];
        item(439, &numbers)
    };
    let backref = [item(16, &[(0, 256)]), vec![4, 0], b"copy".to_vec()].concat();
    let roots = [
        (key(2, 132, 0), root(at(2), 0)),
        (key(5, 132, 0), root(at(3), 1)),
        (key(256, 132, 0), root(at(6), 1)),
        (key(256, 144, 5), backref),
    ];
    leaf(&mut image, at(1), &roots);
    leaf(&mut image, at(2), &[]);

    let inode = |mode: u64, size: u64| item(160, &[(16, size), (40, 1), (52, mode)]);
    let name = |text: &[u8]| [item(8, &[]), vec![text.len() as u8, 0], text.to_vec()].concat();
    let extent = |kind: u64, place: u64, length: u64| {
        item(53, &[(8, length), (20, kind), (21, place), (29, length), (45, length)])
    };
    let first = [
        (key(256, 1, 0), inode(0o040_755, 0)),
        (key(256, 12, 256), name(b"..")),
        (key(257, 1, 0), inode(0o100_644, 20_480)),
        (key(257, 12, 256), name(b"file")),
        (key(257, 108, 0), extent(1, 512 << 10, 8192)),
    ];
    let second = [
        (key(257, 108, 8192), extent(2, 540 << 10, 12_288)),
        (key(258, 1, 0), inode(0o100_644, 5)),
        (key(258, 12, 256), name(b"inline")),
        (key(258, 108, 0), item(26, &[])),
    ];
    leaf(&mut image, at(4), &first);
    leaf(&mut image, at(5), &second);
    leaf(&mut image, at(7), &first);
    inner(&mut image, at(3), 1, &[(key(256, 1, 0), at(4)), (key(257, 108, 8192), at(5))]);
    inner(&mut image, at(6), 1, &[(key(256, 1, 0), at(7)), (key(257, 108, 8192), at(5))]);
    image
}
