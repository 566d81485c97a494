"""Archives that are made to do harm: refused with an error, before anything is written or read."""

import gzip
import io
import os
import stat
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from dubio.data import archives
from dubio.data.archives import open_archive, read_bytes
from dubio.data.errors import DataError
from dubio.data.files import File, verify

MIB = 1 << 20

LEADING_OUTSIDE = [
    "/etc/passwd",
    "//etc/passwd",
    "../outside",
    "a/../../outside",
    "a/b/../../../outside",
    "..",
    "a/..",
    "..\\outside",
    "a\\..\\..\\outside",
    "\\outside",
    "C:\\outside",
    "c:outside",
    "C:/outside",
]

SPECIAL = {
    "symbolic link": tarfile.SYMTYPE,
    "hard link": tarfile.LNKTYPE,
    "character device": tarfile.CHRTYPE,
    "block device": tarfile.BLKTYPE,
    "pipe": tarfile.FIFOTYPE,
}
SPECIAL_IN_ZIPS = {
    "symbolic link": stat.S_IFLNK,
    "character device": stat.S_IFCHR,
    "block device": stat.S_IFBLK,
    "pipe": stat.S_IFIFO,
    "socket": stat.S_IFSOCK,
}


def tar(path: Path, *members: tuple[tarfile.TarInfo, bytes], mode: str = "w") -> Path:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for info, content in members:
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def zipped(path: Path, *members: tuple[str, int, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, attributes, content in members:
            info = zipfile.ZipInfo("x")
            info.filename, info.external_attr = name, attributes << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, content)
    return path


def assert_refused(path: Path, message: str, read: str = "good.txt") -> None:
    """With an error that names the archive; nothing is there afterwards that was not before."""
    around = set(path.parents[1].rglob("*"))
    with pytest.raises(DataError, match=message) as caught, open_archive(path) as archive:
        archive.read(read)
    assert str(path) in str(caught.value)
    assert set(path.parents[1].rglob("*")) == around


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    folder = tmp_path / "deep" / "inside"
    folder.mkdir(parents=True)
    return folder


@pytest.mark.parametrize("name", LEADING_OUTSIDE)
def test_paths_that_lead_outside(name: str, inside: Path) -> None:
    """Even if it is another member that is asked for."""
    good = tarfile.TarInfo("good.txt")
    for mode in ("w", "w:gz", "w:bz2", "w:xz"):
        path = tar(inside / "a.tar", (good, b"good"), (tarfile.TarInfo(name), b"bad"), mode=mode)
        assert_refused(path, "leads outside")
    assert_refused(zipped(inside / "a.zip", ("good.txt", 0, b"good"), (name, 0, b"b")), "outside")


@pytest.mark.parametrize("target", ["/etc/passwd", "../../x", "good.txt"])
@pytest.mark.parametrize("kind", SPECIAL)
def test_links_and_devices(kind: str, target: str, inside: Path) -> None:
    bad = tarfile.TarInfo("bad")
    bad.type, bad.linkname = SPECIAL[kind], target
    bad.devmajor, bad.devminor = 1, 3
    good = tarfile.TarInfo("good.txt")
    assert_refused(tar(inside / "a.tar", (good, b"good"), (bad, b"")), "'bad', which is a link")
    hidden = tarfile.TarInfo("good.txt")  # the last one of a name counts
    hidden.type, hidden.linkname = SPECIAL[kind], target
    assert_refused(tar(inside / "b.tar", (good, b"good"), (hidden, b"")), "'good.txt', which is a")


@pytest.mark.parametrize("kind", SPECIAL_IN_ZIPS)
def test_links_and_devices_in_zips(kind: str, inside: Path) -> None:
    path = zipped(
        inside / "a.zip",
        ("good.txt", stat.S_IFREG | 0o644, b"good"),
        ("bad", SPECIAL_IN_ZIPS[kind] | 0o777, b"/etc/passwd"),
    )
    assert_refused(path, "'bad', which is a link")


def test_a_link_that_the_next_member_goes_through(inside: Path) -> None:
    link = tarfile.TarInfo("folder")
    link.type, link.linkname = tarfile.SYMTYPE, ".."
    through = tarfile.TarInfo("folder/outside.txt")
    assert_refused(tar(inside / "a.tar", (link, b""), (through, b"bad")), "'folder', which is a")


def zip_bomb(path: Path) -> Path:
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("bomb", "w", force_zip64=True) as member,
    ):
        for _ in range(300):
            member.write(bytes(MIB))
    return path


def gzip_bomb(path: Path) -> Path:
    with gzip.open(path, "wb") as file:
        for _ in range(300):
            file.write(b"x" * MIB)
    return path


class Zeros(io.RawIOBase):
    """So many bytes of nothing."""

    def __init__(self, size: int) -> None:
        self.left = size

    def read(self, size: int = -1) -> bytes:
        size = min(size, self.left)
        self.left -= size
        return bytes(size)


def tar_bomb(path: Path) -> Path:
    info = tarfile.TarInfo("bomb")
    info.size = 300 * MIB
    with tarfile.open(path, "w:gz") as archive:
        archive.addfile(info, Zeros(info.size))  # type: ignore[arg-type]
    return path


def sparse_bomb(path: Path) -> Path:
    """A tar of 1.5 KiB with a member of a tebibyte: holes need no space."""
    info = tarfile.TarInfo("bomb")
    info.pax_headers = {
        "GNU.sparse.major": "0",
        "GNU.sparse.minor": "1",
        "GNU.sparse.size": str(1 << 40),
        "GNU.sparse.map": "0,0",
        "GNU.sparse.name": "bomb",
    }
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(info)
    return path


BOMBS: dict[str, Callable[[Path], Path]] = {
    "a.zip": zip_bomb,
    "a.gz": gzip_bomb,
    "a.tar.gz": tar_bomb,
    "a.tar": sparse_bomb,
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs(name: str, inside: Path) -> None:
    path = BOMBS[name](inside / name)
    assert path.stat().st_size < 2 * MIB
    before = path.read_bytes()
    tracemalloc.start()
    try:
        message = "expected at most 268435456 bytes of .* in an archive of this size, got"
        assert_refused(path, message, "content" if name == "a.gz" else "bomb")
        if name != "a.gz":  # whose size is known when it is unpacked
            assert tracemalloc.get_traced_memory()[1] < 64 * MIB
    finally:
        tracemalloc.stop()
    assert path.read_bytes() == before


def test_a_gzip_that_passes_for_a_tar(inside: Path) -> None:
    """A tar's header may have a signed sum; at some times a gzip's is the zero that it states."""
    content, path = b"x" * 4 * MIB, inside / "a.gz"
    _, signed = tarfile.calc_chksums(gzip.compress(content, mtime=1)[:512])  # type: ignore[attr-defined]
    path.write_bytes(gzip.compress(content, mtime=(1 - signed) % 256))
    assert tarfile.is_tarfile(path)
    with open_archive(path) as archive:
        assert archive.read("content") == content


def test_a_bomb_in_the_place_of_a_data_set(inside: Path) -> None:
    """Those whose archive has no published checksum are opened to check their members."""
    path = zip_bomb(inside / "a.zip")
    file = File("a.zip", contents=(("bomb", sha256(b"").hexdigest()),))
    with pytest.raises(DataError, match="in an archive of this size"):
        verify(file, path)
    with pytest.raises(DataError, match="in an archive of this size"):
        read_bytes(gzip_bomb(inside / "b.gz"))


def test_large_members_of_large_archives_are_fine(
    inside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "_HARMLESS", 1000)
    noise = os.urandom(50_000)
    for path in (
        zipped(inside / "a.zip", ("good.txt", 0, noise + bytes(MIB))),
        tar(inside / "a.tgz", (tarfile.TarInfo("good.txt"), noise + bytes(MIB)), mode="w:gz"),
    ):
        with open_archive(path) as archive:
            assert len(archive.read("good.txt")) == 50_000 + MIB
    (inside / "a.gz").write_bytes(gzip.compress(noise + bytes(MIB)))
    assert len(read_bytes(inside / "a.gz")) == 50_000 + MIB


def test_a_zip_that_lies_about_sizes(inside: Path) -> None:
    """It says 4 bytes and unpacks to 300 MiB: what is beyond is not read."""
    path = zip_bomb(inside / "a.zip")
    content = path.read_bytes()
    at = content.index(b"PK\x01\x02") + 24
    path.write_bytes(content[:at] + (4).to_bytes(4, "little") + content[at + 4 :])
    assert_refused(path, "the file is damaged or incomplete", "bomb")


@pytest.mark.parametrize("content", [b"", b"PK\x05\x06", b"PK\x03\x04" + bytes(100), b"\x1f\x8b"])
def test_heads_without_a_body(content: bytes, inside: Path) -> None:
    (inside / "a.zip").write_bytes(content)
    assert_refused(inside / "a.zip", "(damaged or incomplete|expected good.txt in it)")
