"""A virtual machine's disk as an NBD client: replays a record of reads, one behind the other, and says how long each took.

    hosting_client.py SOCKET EXPORT RECORD [PASSES] [START]

The record has a line `OFFSET LENGTH` for each read. With START (seconds since 1970) it waits until then, so that clients begin together.
Prints JSON: requests, bytes, the sum of their times and the 99th percentile, in µs, and a checksum of what was read. The time is what a
client waits, with the cost of this client in it (some 15 µs).
"""

import json
import pathlib
import socket
import struct
import sys
import time
import zlib

MAGIC, OPTION = b"NBDMAGIC", b"IHAVEOPT"
EXPORT_NAME, FIXED_NO_ZEROES = 1, 3
REQUEST, REPLY = 0x25609513, 0x67446698
READ, DISCONNECT = 0, 2


class Disk:
    def __init__(self, path, export):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.connect(path)
        greeting = self.take(18)
        if greeting[:16] != MAGIC + OPTION:
            sys.exit(f"{path} is no NBD server")
        name = export.encode()
        self.socket.sendall(struct.pack(">I", FIXED_NO_ZEROES) + OPTION + struct.pack(">II", EXPORT_NAME, len(name)) + name)
        self.size, _ = struct.unpack(">QH", self.take(10))
        self.buffer = bytearray(1 << 21)

    def take(self, count):
        data = b""
        while len(data) < count:
            more = self.socket.recv(count - len(data))
            if not more:
                sys.exit("the NBD server hung up")
            data += more
        return data

    def read(self, offset, length):
        self.socket.sendall(struct.pack(">IHHQQI", REQUEST, 0, READ, 1, offset, length))
        view, got = memoryview(self.buffer), 0
        while got < 16 + length:
            more = self.socket.recv_into(view[got:16 + length])
            if not more:
                sys.exit("the NBD server hung up")
            got += more
            if got >= 16 and struct.unpack_from(">II", view) != (REPLY, 0):
                sys.exit(f"a read of {length} bytes at {offset} failed with {struct.unpack_from('>I', view, 4)[0]}")
        return view[16:16 + length]

    def close(self):
        self.socket.sendall(struct.pack(">IHHQQI", REQUEST, 0, DISCONNECT, 2, 0, 0))
        self.socket.close()


def main():
    path, export, record = sys.argv[1:4]
    passes = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    start = float(sys.argv[5]) if len(sys.argv) > 5 else 0
    reads = [tuple(map(int, line.split())) for line in pathlib.Path(record).read_text().splitlines()]
    disk, times, checksum = Disk(path, export), [], 0
    time.sleep(max(0, start - time.time()))
    for one in range(passes):
        for offset, length in reads:
            begun = time.perf_counter_ns()
            data = disk.read(offset, length)
            times.append(time.perf_counter_ns() - begun)
            if one == 0:
                checksum = zlib.crc32(data, checksum)
    disk.close()
    times.sort()
    print(json.dumps({"requests": len(times), "bytes": passes * sum(length for _, length in reads), "total_us": sum(times) / 1e3,
                      "mean_us": sum(times) / 1e3 / len(times), "p99_us": times[len(times) * 99 // 100] / 1e3, "checksum": checksum}))


if __name__ == "__main__":
    main()
