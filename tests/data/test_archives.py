"""Archives: only plain members inside are read, and nothing is ever written."""

import gzip
import io
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest

from dubio.data.archives import open_archive, read_bytes
from dubio.data.errors import DataError

UNSAFE = ["../escaped.txt", "folder/../../escaped.txt", "/escaped.txt", "..\\escaped.txt", "C:/x"]


def make_tar(path: Path, *members: tarfile.TarInfo | str, mode: str = "w") -> Path:
    with tarfile.open(path, mode) as archive:
        for member in members:
            info = tarfile.TarInfo(member) if isinstance(member, str) else member
            content = b"content" * 1000 if info.isreg() else b""
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def make_zip(path: Path, *members: zipfile.ZipInfo | str) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member in members:
            info = zipfile.ZipInfo("x") if isinstance(member, str) else member
            if isinstance(member, str):
                info.filename = member
            archive.writestr(info, b"content" * 1000)
    return path


def linked(name: str, target: str, kind: bytes) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def test_members_are_read_in_memory(tmp_path: Path) -> None:
    for path in (
        make_tar(tmp_path / "a.tar", "in/a.txt"),
        make_tar(tmp_path / "a.tar.gz", "in/a.txt", mode="w:gz"),
        make_zip(tmp_path / "a.zip", "in/a.txt"),
    ):
        with open_archive(path) as archive:
            assert archive.read("in/a.txt") == b"content" * 1000
            with pytest.raises(DataError, match=r"expected in/b.txt in it, got none"):
                archive.read("in/b.txt")
    assert len(list(tmp_path.iterdir())) == 3


def test_a_folder_is_read_like_an_archive(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"content")
    with open_archive(tmp_path) as archive:
        assert archive.read("a.txt") == b"content"
        with pytest.raises(DataError, match=r"expected b.txt in it"):
            archive.read("b.txt")


@pytest.mark.parametrize("name", UNSAFE)
def test_members_that_lead_outside_are_refused(name: str, tmp_path: Path) -> None:
    inside = tmp_path / "deep" / "inside"
    inside.mkdir(parents=True)
    for path in (
        make_tar(inside / "a.tar", "fine.txt", name),
        make_tar(inside / "a.tgz", "fine.txt", name, mode="w:gz"),
        make_zip(inside / "a.zip", "fine.txt", name),
    ):
        with (
            pytest.raises(DataError, match="leads outside; nothing was written") as caught,
            open_archive(path),
        ):
            pytest.fail("it was opened")
        assert str(path) in str(caught.value)
        assert repr(name) in str(caught.value)
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} == {
        "a.tar", "a.tgz", "a.zip",
    }  # fmt: skip


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_are_refused(kind: bytes, tmp_path: Path) -> None:
    path = make_tar(tmp_path / "a.tar", "fine.txt", linked("link", "fine.txt", kind))
    with pytest.raises(DataError, match="'link', which is a link"), open_archive(path):
        pytest.fail("it was opened")


def test_links_in_zips_are_refused(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    path = make_zip(tmp_path / "a.zip", link)
    with pytest.raises(DataError, match="'link', which is a link"), open_archive(path):
        pytest.fail("it was opened")


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_a_truncated_tar(mode: str, tmp_path: Path) -> None:
    path = make_tar(tmp_path / "a.tar", *(f"{k}.txt" for k in range(50)), mode=mode)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with (
        pytest.raises(DataError, match=r"a.tar: the file is damaged or incomplete"),
        open_archive(path) as archive,
    ):
        all(archive.read(f"{k}.txt") for k in range(50))


def test_a_flipped_byte_in_a_zip(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "a.zip", "a.txt")
    content = bytearray(path.read_bytes())
    content[45] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"a.zip: the file is damaged"), open_archive(path) as file:
        file.read("a.txt")


def test_a_zip_without_its_table(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "a.zip", "a.txt", "b.txt")
    content = path.read_bytes()
    start = content.index(b"PK\x01\x02")
    path.write_bytes(content[:start] + b"\0" * 4 + content[start + 4 :])
    with pytest.raises(DataError, match=r"a.zip: the file is damaged"), open_archive(path):
        pytest.fail("it was opened")


def test_gzips(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    whole = gzip.compress(b"content" * 1000)
    path.write_bytes(whole)
    assert read_bytes(path) == b"content" * 1000
    with open_archive(path) as archive:
        assert archive.read("content") == b"content" * 1000
    for bad in (whole[:-9], whole[:5], whole[:20] + b"\0" + whole[21:], whole + b"more"):
        path.write_bytes(bad)
        with pytest.raises(DataError, match=r"a.gz: the file is damaged or incomplete"):
            read_bytes(path)
    path.write_bytes(b"plain")
    assert read_bytes(path) == b"plain"
