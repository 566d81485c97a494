"""Damaged, partial and missing files: an error that names the file, and nothing written."""

import gzip
import json
import os
import shutil
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dubio import data
from dubio.data import inventory
from dubio.data.dataset import Dataset, Form
from dubio.data.errors import DataError, extra
from dubio.data.files import File

CONTENT = gzip.compress(b"what was published " * 100, mtime=0)


def made_up(*forms: Form) -> Dataset:
    return Dataset("made-up", "A made-up set", "any", "nobody", "https://example.org", forms)


def put(folder: Path, file: File, content: bytes) -> Path:
    path = folder / file.path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def flipped(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


def everything(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


@pytest.mark.usefixtures("no_network")
def test_an_intact_file_is_used_from_dubio_data(folder: Path, publish: Callable[..., File]) -> None:
    file = publish(CONTENT)
    path = put(folder, file, CONTENT)
    copy = made_up(Form("the original", (file,))).locate()
    assert copy.paths == (path,)
    assert copy.source == f"the original: {path}"


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (flipped(CONTENT, len(CONTENT) // 2), "damaged: expected sha256:"),
        (CONTENT[: len(CONTENT) // 2], "incomplete: expected 56 bytes, got 28"),
        (b"", "incomplete"),
        (CONTENT + b"\0", "not the published one"),
    ],
    ids=["a flipped byte", "half of it", "nothing of it", "too much"],
)
@pytest.mark.parametrize("place", ["DUBIO_DATA", "cache"])
def test_damage_is_found_and_named(
    place: str,
    content: bytes,
    message: str,
    folder: Path,
    cache: Path,
    publish: Callable[..., File],
    tmp_path: Path,
) -> None:
    file = publish(CONTENT)
    path = put(folder if place == "DUBIO_DATA" else cache, file, content)
    before = everything(tmp_path)
    with pytest.raises(DataError, match=message) as caught:
        made_up(Form("the original", (file,))).locate()
    assert str(path) in str(caught.value)
    assert "delete it" in str(caught.value)
    assert everything(tmp_path) == before


@pytest.mark.usefixtures("no_network")
def test_a_file_that_changes_after_it_was_verified_is_verified_again(
    folder: Path, publish: Callable[..., File]
) -> None:
    file = publish(CONTENT)
    path = put(folder, file, CONTENT)
    dataset = made_up(Form("the original", (file,)))
    dataset.locate()
    put(folder, file, flipped(CONTENT, 40))
    os.utime(path, ns=(0, 0))
    with pytest.raises(DataError, match="damaged"):
        dataset.locate()


@pytest.mark.usefixtures("no_network")
def test_a_file_is_read_once_to_verify_it(
    folder: Path, publish: Callable[..., File], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = publish(CONTENT)
    put(folder, file, CONTENT)
    dataset = made_up(Form("the original", (file,)))
    dataset.locate()
    monkeypatch.setattr("dubio.data.files.digest", lambda *_: pytest.fail("read twice"))
    dataset.locate()


@pytest.mark.usefixtures("no_network")
def test_a_damaged_original_is_an_error_even_if_a_copy_is_intact(
    folder: Path, publish: Callable[..., File]
) -> None:
    original, copy = publish(CONTENT, "original.gz"), publish(b"copy", "copy.txt")
    put(folder, original, flipped(CONTENT, 40))
    put(folder, copy, b"copy")
    with pytest.raises(DataError, match=r"original\.gz"):
        made_up(Form("the original", (original,)), Form("a copy", (copy,))).locate()


@pytest.mark.usefixtures("no_network")
def test_the_best_form_that_is_complete_is_taken(
    folder: Path, publish: Callable[..., File]
) -> None:
    first, second = publish(b"1", "first"), publish(b"2", "second")
    copy = publish(b"copy", "copy.txt")
    put(folder, first, b"1")
    put(folder, copy, b"copy")
    dataset = made_up(Form("the original", (first, second)), Form("a copy", (copy,)))
    assert dataset.locate().form.text == "a copy"
    put(folder, second, b"2")
    assert dataset.locate().form.text == "the original"


def test_missing_without_network(
    cache: Path, publish: Callable[..., File], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("DUBIO_DATA", raising=False)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    url = f"http://127.0.0.1:{port}/up.bin"
    with pytest.raises(DataError, match=r"download from .* failed") as caught:
        made_up(Form("the original", (publish(CONTENT, url=url),))).locate()
    for hint in (url, str(cache / "made/up.bin"), "DUBIO_DATA", "by hand"):
        assert hint in str(caught.value)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.usefixtures("no_network")
def test_missing_and_not_to_be_downloaded(folder: Path, cache: Path, tmp_path: Path) -> None:
    form = Form("the original", (File("a/b.txt", url="http://127.0.0.1/b"),), by_hand="ask for it")
    with pytest.raises(DataError, match=r"A made-up set: expected a/b\.txt") as caught:
        made_up(form).locate()  # a file that nothing can check is not downloaded
    for hint in (str(folder), str(cache), "ask for it"):
        assert hint in str(caught.value)
    assert everything(tmp_path) == {folder}


def test_dubio_data_must_be_a_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DUBIO_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match=r"DUBIO_DATA: expected a folder, got .*nowhere"):
        data.mnist("train")


def test_real_damage_in_every_kind_of_file(
    held: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaders: dict[str, Callable[[], object]] = {
        "uci-regression/yacht/data.txt.gz": lambda: data.uci("yacht"),
        "uci-regression/yacht/splits.npz": lambda: data.uci("yacht"),
        "dropout-paper-regression/co2_train.h5": data.co2,
        "mauna-loa-co2/co2_mm_mlo.txt": data.co2_monthly,
        "mnist/t10k-labels-idx1-ubyte.gz": lambda: data.mnist("test"),
        "camvid/camvid11_480x360_sample.tar": lambda: data.camvid_sample("test"),
        "movielens-1m/ml-1m.zip": data.movielens_users,
        "movielens-1m/ml1m_pro_sg.npz": data.movielens_split,
        "qspr-aminoacids/aminoacids.csv": data.qspr,
    }
    for name in {str(Path(name).parent) for name in loaders}:
        shutil.copytree(held / name, folder / name, ignore=shutil.ignore_patterns("*240x180*"))
    for path in folder.rglob("*"):
        path.chmod(0o755)
    for name, load in loaders.items():
        load()
        content = (folder / name).read_bytes()
        for bad in (flipped(content, len(content) // 2), content[:-1]):
            (folder / name).write_bytes(bad)
            with pytest.raises(DataError, match=Path(name).name):
                load()
        (folder / name).write_bytes(content)


@pytest.mark.usefixtures("no_network")
def test_the_inventory_of_an_empty_machine(folder: Path, cache: Path) -> None:
    holdings = data.available()
    assert {holding.status for holding in holdings} == {"missing"}
    assert all(holding.how_to_get and holding.licence and holding.page for holding in holdings)
    text = str(holdings)
    assert f"DUBIO_DATA: {folder}" in text
    assert f"cache: {cache}" in text
    assert "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz" in text


@pytest.mark.usefixtures("held")
def test_the_inventory_of_the_data_at_hand() -> None:
    holdings = {holding.name: holding for holding in data.available()}
    by_status: dict[str, set[str]] = {}
    for holding in holdings.values():
        by_status.setdefault(holding.status, set()).add(holding.name)
    assert by_status["missing"] == {
        "uci-YearPredictionMSD",
        "amazon-unlabeled",
        "movielens-20m",
        "netflix",
        "million-song-taste",
        "imagenet-vgg19",
    }
    assert by_status["lesser copy"] == {"cifar10", "cifar10-small", "camvid", "solar-yearly"}
    assert "damaged" not in by_status
    assert holdings["mnist"].size == 9912422 + 28881 + 1648877 + 4542
    assert "fetch_original('cifar10')" in holdings["cifar10"].how_to_get
    rows = json.loads(json.dumps(data.available().to_dicts()))
    assert [row["name"] for row in rows] == list(holdings)


@pytest.mark.usefixtures("no_network")
def test_the_inventory_finds_damage(folder: Path) -> None:
    put(folder, File("qspr-aminoacids/aminoacids.csv"), b"no table")
    holding = next(holding for holding in data.available() if holding.name == "qspr")
    assert holding.status == "damaged"
    assert "aminoacids.csv: the file is incomplete" in holding.how_to_get


def test_fetching_what_cannot_be_fetched(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"name: expected one of .*got 'imagenet'"):
        data.fetch_original("imagenet")
    with pytest.raises(DataError, match=r"solar-yearly: .*save lean2000"):
        data.fetch_original("solar-yearly")


def test_names_are_unique_and_every_form_can_be_had() -> None:
    datasets = list(inventory.DATASETS.values())
    assert len({dataset.title for dataset in datasets}) == len(datasets)
    for dataset in datasets:
        best = dataset.forms[0]
        assert best.by_hand or all(file.downloadable for file in best.files), dataset.name


def test_wrong_names_are_errors() -> None:
    for load, wrong in [
        (data.uci, "bosten"),
        (data.mnist, "valid"),
        (data.fashion_mnist, "valid"),
        (data.cifar10, "val"),
        (data.cifar10_small, "val"),
        (data.amazon, "films"),
        (data.amazon_unlabeled, "films"),
        (data.movielens, "10m"),
        (data.camvid, "valid"),
        (data.camvid_sample, "val"),
    ]:
        with pytest.raises(ValueError, match=f"expected .*got '{wrong}'"):
            load(wrong)
    with pytest.raises(ValueError, match="split: expected train or test, got 'val'"):
        data.amazon_selected("books", "val")


def test_a_missing_extra_says_how_to_get_it() -> None:
    with pytest.raises(ImportError, match=r"pip install 'dubio\[data\]'"):
        extra("no_such_package.inside")


def test_without_pooch_only_what_is_here_can_be_read(
    folder: Path, publish: Callable[..., File], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pooch", None)
    monkeypatch.delenv("DUBIO_CACHE")
    file = publish(CONTENT, url="http://127.0.0.1/up.bin")
    original = publish(b"original", "original.bin", "http://127.0.0.1/original.bin")
    put(folder, file, CONTENT)
    assert (
        made_up(Form("best", (original,)), Form("a copy", (file,))).locate().form.text == "a copy"
    )
    with pytest.raises(ImportError, match=r"pooch, got none; pip install 'dubio\[data\]'"):
        made_up(Form("best", (original,))).locate()
