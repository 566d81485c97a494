"""The data at hand: shapes, counts, ranges, and facts that others have published about them."""

import gzip
import hashlib
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_svmlight_file
from torch import Tensor

from dubio import data
from dubio.data.inventory import DATASETS
from dubio.data.registry import registry

pytestmark = pytest.mark.usefixtures("held")

TABLES = {  # rows, features, mean of the target, splits, train rows
    "bostonHousing": (506, 13, 22.532806, 20, 455),
    "concrete": (1030, 8, 35.817961, 20, 927),
    "energy": (768, 8, 22.307201, 20, 691),
    "kin8nm": (8192, 8, 0.714283, 20, 7373),
    "naval-propulsion-plant": (11934, 16, 0.975, 20, 10741),
    "power-plant": (9568, 4, 454.365009, 20, 8611),
    "protein-tertiary-structure": (45730, 9, 7.748528, 5, 41157),
    "wine-quality-red": (1599, 11, 5.636023, 20, 1439),
    "yacht": (308, 6, 10.495357, 20, 277),
}
REVIEWS = {  # words, test documents
    "books": (195_887, 4465),
    "dvd": (188_778, 3586),
    "electronics": (111_407, 5681),
    "kitchen": (93_474, 5945),
}
NOT_READ = {  # at hand, but no loader reads them
    "movielens-1m/ml1m_interactions.npz",  # these three are parts of ml-1m.zip
    "movielens-1m/movies.dat.gz",
    "movielens-1m/users.dat.gz",
}

camvid = cache(data.camvid)
mnist = cache(data.mnist)


def assert_shape(value: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    assert tuple(value.shape) == shape
    assert value.dtype == dtype


def test_every_file_is_in_the_registry_and_intact(held: Path) -> None:
    files = {path.relative_to(held).as_posix() for path in held.rglob("*") if path.is_file()}
    texts = {"PROVENANCE.md", "movielens-1m/README.upstream.txt"}
    for name in files - texts:
        content = (held / name).read_bytes()
        assert registry()[name].size == len(content), name
        assert registry()[name].digest == f"sha256:{hashlib.sha256(content).hexdigest()}", name


def test_every_registered_file_that_is_read_belongs_to_a_data_set() -> None:
    used = {file for dataset in DATASETS.values() for form in dataset.forms for file in form.files}
    assert {path for path, file in registry().items() if file not in used} == NOT_READ


@pytest.mark.parametrize("name", TABLES)
def test_uci_tables(name: str) -> None:
    rows, features, mean, splits, train = TABLES[name]
    table = data.uci(name)
    assert_shape(table.features, (rows, features), torch.float64)
    assert_shape(table.target, (rows,), torch.float64)
    assert table.target.mean().item() == pytest.approx(mean, abs=1e-6)
    assert table.features.isfinite().all()
    assert len(table.feature_names) == features
    assert len(table.splits) == splits
    generator = np.random.RandomState(1)  # the recipe as it was published
    for split in table.splits:
        order = generator.choice(range(rows), rows, replace=False)
        assert len(split.train) == train
        assert torch.cat(split).tolist() == order.tolist()


def test_short_names_of_uci_tables() -> None:
    assert torch.equal(data.uci("boston").features, data.uci("bostonHousing").features)
    assert "gzip of the original" in data.uci("boston").source


def test_boston_is_the_table_everybody_knows() -> None:
    table = data.uci("boston")
    first = dict(zip(table.feature_names, table.features[0].tolist(), strict=True))
    assert (first["CRIM"], first["RM"], first["LSTAT"]) == (0.00632, 6.575, 4.98)
    assert table.target[:3].tolist() == [24.0, 21.6, 34.7]


def test_co2() -> None:
    curve = data.co2()
    assert_shape(curve.x, (272, 1), torch.float64)
    assert_shape(curve.test_x, (1000, 1), torch.float64)
    x, y = curve.x[:, 0], curve.y[:, 0]
    for value in (x, y):
        assert value.mean().item() == pytest.approx(0, abs=1e-6)
        assert value.std(correction=0).item() == pytest.approx(1, abs=1e-6)
    torch.testing.assert_close(x.diff(), x.diff()[:1].expand(271), rtol=0, atol=1e-9)
    assert (x @ y).item() / 272 == pytest.approx(0, abs=1e-6)  # detrended
    assert curve.test_x.min() >= x.max()


def test_solar() -> None:
    curve = data.solar()
    assert_shape(curve.x, (275, 1), torch.float64)
    assert_shape(curve.test_y, (100, 1), torch.float64)
    x, y = torch.cat([curve.x, curve.test_x])[:, 0], torch.cat([curve.y, curve.test_y])[:, 0]
    for value in (x, y):
        assert value.mean().item() == pytest.approx(0, abs=1e-6)
        assert value.std(correction=0).item() == pytest.approx(1, abs=1e-6)
    held_out = (x.argsort() >= 275).nonzero()[:, 0].tolist()
    assert held_out == [k for start in (17, 92, 167, 242, 317) for k in range(start, start + 20)]


def test_monthly_co2() -> None:
    series = data.co2_monthly()
    assert_shape(series.ppm, (807,), torch.float64)
    assert series.year[0].item() == pytest.approx(1958.2027)
    assert series.year[-1].item() == pytest.approx(2025.375, abs=0.01)
    assert series.ppm[0].item() == 315.71
    assert 312 < series.ppm.min() < series.ppm.max() < 431


def test_the_paper_used_the_first_months_with_measurements() -> None:
    curve, series = data.co2(), data.co2_monthly()
    missing = torch.tensor([3, 7, 71, 72, 73])  # June and October 1958, February to April 1964
    months = torch.arange(277)
    ppm = series.ppm[months[~torch.isin(months, missing)]]
    design = torch.cat([torch.ones_like(curve.x), curve.x, curve.y], dim=1)
    error = ppm - design @ torch.linalg.lstsq(design, ppm[:, None]).solution[:, 0]
    assert 1 - (error.var() / ppm.var()).item() > 0.999


def test_yearly_irradiance() -> None:
    series = data.solar_yearly()
    assert_shape(series.total, (399,), torch.float64)
    assert (series.year[0], series.year[-1]) == (1610.5, 2008.5)
    assert series.cycle[0].item() == 1365.8477
    assert "later revision" in series.source


@pytest.mark.parametrize(
    ("load", "first"),
    [
        (mnist, {"train": [5, 0, 4, 1, 9], "test": [7, 2, 1, 0, 4]}),
        (data.fashion_mnist, {"train": [9, 0, 0, 3, 0], "test": [9, 2, 1, 1, 6]}),
    ],
)
def test_mnist_and_fashion_mnist(load: type, first: dict[str, list[int]]) -> None:
    for split, size in (("train", 60_000), ("test", 10_000)):
        images = load(split)
        assert_shape(images.images, (size, 28, 28), torch.uint8)
        assert_shape(images.labels, (size,), torch.int64)
        assert images.labels[:5].tolist() == first[split]
        assert len(images.classes) == len(images.labels.unique()) == 10
    if load is mnist:
        assert images.labels.bincount().tolist() == [
            980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009,
        ]  # fmt: skip


def test_mnist_has_the_mean_everybody_subtracts() -> None:
    images = mnist("train").images
    assert images.float().mean().item() / 255 == pytest.approx(0.1307, abs=1e-4)


def test_notmnist() -> None:
    letters = data.notmnist()
    assert_shape(letters.images, (10_000, 28, 28), torch.uint8)
    assert letters.labels.bincount().tolist() == [1000] * 10
    assert letters.classes[0] == "A"


def test_the_small_cifar10_is_a_part_of_the_whole() -> None:
    whole, small = data.cifar10("test"), data.cifar10_small("test")
    assert_shape(whole.images, (10_000, 3, 32, 32), torch.uint8)
    assert_shape(small.images, (2000, 3, 32, 32), torch.uint8)
    assert whole.labels.bincount().tolist() == [1000] * 10
    assert "LOSSY" in whole.source
    assert "LOSSY" in small.source
    first = (torch.arange(10)[:, None] * 1000 + torch.arange(200)).flatten()
    order = torch.from_numpy(np.random.RandomState(0).permutation(2000))
    assert torch.equal(small.images, whole.images[first][order])
    assert torch.equal(small.labels, whole.labels[first][order])


def test_small_cifar10_to_train_on() -> None:
    small = data.cifar10_small("train")
    assert_shape(small.images, (5000, 3, 32, 32), torch.uint8)
    assert small.labels.bincount().tolist() == [500] * 10
    assert small.classes[small.labels[0]] == "airplane"


def test_mushroom() -> None:
    table = data.mushroom()
    assert_shape(table.codes, (8124, 22), torch.int64)
    assert int(table.poisonous.sum()) == 3916
    root = table.feature_names.index("stalk-root")
    unknown = table.categories[root].index("?")
    assert int((table.codes[:, root] == unknown).sum()) == 2480
    hot = table.one_hot()
    assert_shape(hot, (8124, 117), torch.float32)
    assert (hot.sum(1) == 22).all()
    odor = table.feature_names.index("odor")
    foul = table.codes[:, odor] == table.categories[odor].index("f")
    assert int(foul.sum()) == 2160
    assert table.poisonous[foul].all()


@pytest.mark.parametrize("domain", REVIEWS)
def test_amazon(domain: str) -> None:
    words, documents = REVIEWS[domain]
    reviews = data.amazon(domain)
    assert reviews.counts.shape == (2000, words) == (2000, len(reviews.vocabulary))
    assert reviews.labels.tolist() == [1] * 1000 + [-1] * 1000
    assert reviews.counts.min() == 0
    assert reviews.counts.has_sorted_indices
    train, test = (data.amazon_selected(domain, split) for split in ("train", "test"))
    assert (train.counts.shape, test.counts.shape) == ((2000, 5000), (documents, 5000))
    assert (train.labels + 1).bincount().tolist() == [1000, 0, 1000]
    assert set(test.labels.tolist()) == {1, -1}


def test_amazon_against_the_text(held: Path) -> None:
    path = held / "amazon-sentiment/processed_acl/kitchen/negative.review.gz"
    line = gzip.decompress(path.read_bytes()).decode().splitlines()[7]
    expected = dict(word.rsplit(":", 1) for word in line.split(" ")[:-1])
    reviews = data.amazon("kitchen")
    row = reviews.counts[[1007]].tocoo()
    found = {
        reviews.vocabulary[column]: str(count)
        for column, count in zip(row.coords[1], row.data, strict=True)
    }
    assert found == expected


def test_selected_amazon_against_scikit_learn(held: Path) -> None:
    path = held / "amazon-sentiment/dann_svmlight_5000/dvd_test.svmlight.gz"
    counts, labels = load_svmlight_file(str(path), n_features=5000, zero_based=True)
    reviews = data.amazon_selected("dvd", "test")
    assert reviews.labels.tolist() == labels.tolist()
    assert abs(reviews.counts - counts).max() == 0


def test_qspr() -> None:
    table = data.qspr()
    assert_shape(table.features, (19, 7), torch.float64)
    assert table.feature_names == ("PIE", "PIF", "DGR", "SAC", "MR", "Lam", "Vol")
    assert table.target_name == "DDGTS"
    assert (table.amino_acids[0], table.target[0].item()) == ("Ala", 8.5)
    assert table.features[0].tolist() == [0.23, 0.31, -0.55, 254.2, 2.126, -0.02, 82.2]


def test_movielens_100k() -> None:
    ratings = data.movielens("100k")
    assert_shape(ratings.user, (100_000,), torch.int64)
    assert (len(ratings.user.unique()), len(ratings.item.unique())) == (943, 1682)
    assert ratings.rating.long().bincount().tolist() == [0, 6110, 11370, 27145, 34174, 21201]
    assert [ratings.user[0], ratings.item[0], ratings.rating[0]] == [196, 242, 3]
    assert int(ratings.liked.sum()) == 34174 + 21201


def test_movielens_1m() -> None:
    ratings = data.movielens("1m")
    assert_shape(ratings.user, (1_000_209,), torch.int64)
    assert (len(ratings.user.unique()), len(ratings.item.unique())) == (6040, 3706)
    stars = [0, 56_174, 107_557, 261_197, 348_971, 226_310]
    assert ratings.rating.long().bincount().tolist() == stars
    assert int(ratings.liked.sum()) == 348_971 + 226_310
    first = [ratings.user[0], ratings.item[0], ratings.rating[0], ratings.timestamp[0]]
    assert first == [1, 1193, 5, 978_300_760]
    assert "original archive" in ratings.source
    titles = {movie.item: movie.title for movie in data.movielens_movies()}
    assert len(titles) == 3883
    assert titles[1] == "Toy Story (1995)"
    assert set(ratings.item.unique().tolist()) <= set(titles)
    users = data.movielens_users()
    assert [user.user for user in users] == list(range(1, 6041))


def test_the_split_of_movielens_holds_out_users() -> None:
    split, ratings = data.movielens_split(), data.movielens("1m")
    parts = {
        "train": split.train,
        "validation": torch.cat([split.validation_fold_in, split.validation_held_out]),
        "test": torch.cat([split.test_fold_in, split.test_held_out]),
    }
    sizes = {name: len(part) for name, part in parts.items()}
    assert sizes == {"train": 383_420, "validation": 77_568 + 18_900, "test": 76_634 + 18_652}
    users = {name: set(part[:, 0].tolist()) for name, part in parts.items()}
    assert [len(users[name]) for name in parts] == [4034, 1000, 1000]
    assert not users["train"] & (users["validation"] | users["test"])
    assert not users["validation"] & users["test"]
    pairs = torch.cat(list(parts.values()))
    split_codes = split.users[pairs[:, 0]] * 10_000 + split.items[pairs[:, 1]]
    liked = ratings.liked == 1
    enough = ratings.user.bincount(ratings.liked) >= 5
    assert split.users.tolist() == enough.nonzero()[:, 0].tolist()
    to_train = liked & torch.isin(ratings.user, split.users[split.train[:, 0]])
    assert set(split.items.tolist()) == set(ratings.item[to_train].tolist())
    kept = liked & enough[ratings.user] & torch.isin(ratings.item, split.items)
    kept_codes = ratings.user[kept] * 10_000 + ratings.item[kept]
    assert split_codes.sort().values.tolist() == kept_codes.sort().values.tolist()


@pytest.mark.parametrize(("split", "size"), [("train", 367), ("val", 101), ("test", 233)])
def test_camvid(split: str, size: int) -> None:
    scenes = camvid(split)
    assert_shape(scenes.images, (size, 3, 180, 240), torch.uint8)
    assert_shape(scenes.labels, (size, 180, 240), torch.uint8)
    assert scenes.labels.unique().tolist() == list(range(12))
    assert len(scenes.classes) == scenes.void == 11
    assert len(set(scenes.names)) == size
    assert "HALVED" in scenes.source


def test_halved_camvid_is_half_of_the_sample() -> None:
    halved, sample = camvid("test"), data.camvid_sample("test")
    assert_shape(sample.images, (4, 3, 360, 480), torch.uint8)
    assert_shape(data.camvid_sample("train").labels, (8, 360, 480), torch.uint8)
    rows = [halved.names.index(name) for name in sample.names]
    assert torch.equal(halved.labels[rows], sample.labels[:, ::2, ::2])
    means = torch.nn.functional.avg_pool2d(sample.images.double(), 2)
    assert (halved.images[rows] - means).abs().max() <= 0.5
