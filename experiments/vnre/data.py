#!/usr/bin/env python3
"""Makes the data of this experiment: public packages by name, version and hash.

    python3 experiments/vnre/data.py FOLDER

Needs npm, apt-get and dpkg-deb. Writes four folders of files, one a kind of flow (bytes are told at
the end). The same packages give the same bytes; a package whose hash differs is refused.

http  text of npm packages in several versions, each file behind a header as a server would send it
smtp  mails: headers, some text of those files, and for two of three a base64 attachment
ftp   files of Debian's kernel images (three builds of one release)
rtsp  what video looks like when it is encrypted: no byte can be told from the others
"""

import base64
import hashlib
import json
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile

NPM = json.loads((pathlib.Path(__file__).parent / "packages.json").read_text())["npm"]
DEBIAN = json.loads((pathlib.Path(__file__).parent / "packages.json").read_text())["debian"]
TEXT = {".js", ".mjs", ".cjs", ".css", ".html", ".json", ".md", ".ts", ".txt", ".map", ".scss"}
TEXT_BYTES = (256, 1 << 20)
RTSP_FILES, RTSP_BYTES = 160, 512 << 10
MAILS = 3600
ATTACHMENT_BYTES = 256 << 10


class Draw:
    """Numbers from a seed, the same with every version of Python."""

    def __init__(self, seed):
        self.stream = hashlib.shake_256(seed.encode()).digest(1 << 20)
        self.at = 0

    def below(self, bound):
        self.at = (self.at + 8) % (len(self.stream) - 8)
        return int.from_bytes(self.stream[self.at:self.at + 8], "little") % bound


def checked(path, expected):
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if expected != found:
        sys.exit(f"{path.name}: SHA-256 is {found}, expected {expected}; the package changed or "
                 "the download broke off")


def npm(work):
    for package, expected in NPM.items():
        name = subprocess.run(["npm", "pack", "--silent", package], cwd=work, check=True,
                              capture_output=True, text=True).stdout.split()[-1]
        checked(work / name, expected)
        yield package, work / name


def http(out, work):
    count = 0
    for package, path in npm(work):
        bodies = {}
        with tarfile.open(path) as tar:
            for member in tar:
                right = TEXT_BYTES[0] <= member.size <= TEXT_BYTES[1]
                if member.isfile() and right and pathlib.Path(member.name).suffix in TEXT:
                    bodies[member.name] = tar.extractfile(member).read()
        for name in sorted(bodies):
            body = bodies[name]
            tag = hashlib.sha256(body).hexdigest()[:32]
            head = (f"HTTP/1.1 200 OK\r\nServer: nginx\r\nContent-Type: text/plain\r\n"
                    f"Content-Length: {len(body)}\r\nETag: \"{tag}\"\r\n"
                    f"X-From: {package}\r\nCache-Control: max-age=3600\r\n\r\n")
            (out / f"{count:05}").write_bytes(head.encode() + body)
            count += 1


def ftp(out, work):
    count = 0
    for package, expected in DEBIAN.items():
        subprocess.run(["apt-get", "download", "-qq", package], cwd=work, check=True)
        [path] = work.glob(package.split("=")[0] + "_*.deb")
        checked(path, expected)
        tree = work / "tree"
        subprocess.run(["dpkg-deb", "-x", path, tree], check=True)
        for file in sorted(tree.rglob("*")):
            if file.is_file() and not file.is_symlink() and file.stat().st_size >= 4096:
                shutil.copyfile(file, out / f"{count:05}")
                count += 1
        shutil.rmtree(tree)
        path.unlink()


def smtp(out, folders):
    draw = Draw("mails of experiments/vnre")
    texts = sorted((folders / "http").iterdir())
    things = texts + sorted((folders / "ftp").iterdir())
    things = [path for path in things if path.stat().st_size <= ATTACHMENT_BYTES]
    kept = [things[draw.below(len(things))] for _ in range(MAILS // 3)]
    for number in range(MAILS):
        text = texts[draw.below(len(texts))].read_bytes()
        text = text[:500 + draw.below(3000)].decode("ascii", "replace").replace("\ufffd", "?")
        border = hashlib.sha256(str(number).encode()).hexdigest()[:24]
        mail = (f"From: a{draw.below(40)}@example.org\r\nTo: b{draw.below(40)}@example.net\r\n"
                f"Message-ID: <{border}@example.org>\r\nSubject: number {number}\r\n"
                f"MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary={border}\r\n\r\n"
                f"--{border}\r\nContent-Type: text/plain\r\n\r\n{text}\r\n--{border}\r\n").encode()
        if number % 3:
            # Attachments go round: the same file comes in some three mails, behind other text.
            thing = kept[draw.below(len(kept))].read_bytes()
            mail += b"Content-Transfer-Encoding: base64\r\n\r\n"
            mail += base64.encodebytes(thing).replace(b"\n", b"\r\n")
            mail += f"--{border}--\r\n".encode()
        (out / f"{number:05}").write_bytes(mail)


def rtsp(out):
    for number in range(RTSP_FILES):
        seed = f"video {number} of experiments/vnre".encode()
        (out / f"{number:05}").write_bytes(hashlib.shake_256(seed).digest(RTSP_BYTES))


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folders = pathlib.Path(sys.argv[1])
    for name in ("http", "smtp", "ftp", "rtsp"):
        shutil.rmtree(folders / name, ignore_errors=True)
        (folders / name).mkdir(parents=True)
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        http(folders / "http", work)
        ftp(folders / "ftp", work)
    smtp(folders / "smtp", folders)
    rtsp(folders / "rtsp")
    for name in ("http", "smtp", "ftp", "rtsp"):
        files = list((folders / name).iterdir())
        print(name, len(files), "files,", sum(path.stat().st_size for path in files), "bytes")


main()
