"""Interactions of users and items: the splits at hand, and small files of the originals' form."""

import io
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from dubio import data
from dubio.data import dataset, large_ratings
from dubio.data.errors import DataError


@pytest.fixture
def unverified(monkeypatch: pytest.MonkeyPatch, no_network: None) -> None:
    """Made-up files pass for the published ones."""
    monkeypatch.setattr(dataset, "verify", lambda *_: None)


def put(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


@pytest.mark.usefixtures("held")
class TestHeld:
    @pytest.mark.parametrize(
        ("name", "shape", "sizes"),
        [
            ("gowalla", (29_858, 40_981), (810_128, 217_242)),
            ("yelp2018", (31_668, 38_048), (1_237_259, 324_147)),
        ],
    )
    def test_the_splits_of_lightgcn(
        self, name: str, shape: tuple[int, int], sizes: tuple[int, int]
    ) -> None:
        """The counts are those of He et al. (2020), table 2, and of the published files."""
        split = getattr(data, name)()
        assert split.validation is None
        assert split.train.shape == split.test.shape == shape
        assert (split.train.nnz, split.test.nnz) == sizes
        assert split.train.multiply(split.test).nnz == 0
        assert np.diff(split.train.indptr).min() >= 1
        assert (split.train.data == 1).all()

    def test_the_split_of_diffrec(self) -> None:
        split = data.movielens_diffrec()
        parts = (split.train, split.validation, split.test)
        assert [part.nnz for part in parts] == [403_277, 110_722, 57_532]
        assert {part.shape for part in parts} == {(5949, 2810)}
        assert (split.train + split.validation + split.test).max() == 1

    def test_the_split_of_infinite_ae(self) -> None:
        split, ratings = data.movielens_infinite_ae(), data.movielens("1m")
        parts = (split.train, split.validation, split.test)
        assert [part.nnz for part in parts] == [791_718, 99_692, 108_799]
        assert {part.shape for part in parts} == {(6040, 3706)}
        whole = split.train + split.validation + split.test
        assert whole.max() == 1
        items = ratings.item.unique()
        row, column = whole.nonzero()
        codes = torch.from_numpy(row + 1).long() * 10_000 + items[torch.from_numpy(column).long()]
        assert torch.equal(codes, (ratings.user * 10_000 + ratings.item).sort().values)
        assert "ml1m_part.npz" in split.source
        assert "ml-1m.zip" in split.source

    def test_citeulike(self) -> None:
        found = data.citeulike_a().user_items
        assert found.shape == (5551, 16_980)
        assert found.nnz == 204_986
        assert np.diff(found.indptr).min() >= 10


@pytest.mark.usefixtures("unverified")
class TestOriginals:
    def test_text_of_lightgcn(self, folder: Path) -> None:
        put(folder / "gowalla/train.txt", b"0 3 1\n1 0\n2 4 2\n")
        put(folder / "gowalla/test.txt", b"0 0\n2 1 \n1\n")
        split = data.gowalla()
        np.testing.assert_array_equal(
            split.train.toarray(), [[0, 1, 0, 1, 0], [1, 0, 0, 0, 0], [0, 0, 1, 0, 1]]
        )
        np.testing.assert_array_equal(
            split.test.toarray(), [[1, 0, 0, 0, 0], [0, 0, 0, 0, 0], [0, 1, 0, 0, 0]]
        )
        assert "original text files" in split.source
        path = put(folder / "gowalla/test.txt", b"0 x\n")
        with pytest.raises(DataError, match=rf"{path}: expected lines of integers"):
            data.gowalla()

    def test_text_of_citeulike(self, folder: Path) -> None:
        put(folder / "citeulike-a/users.dat", b"2 1 3\n0\n1 0\n")
        found = data.citeulike_a().user_items
        np.testing.assert_array_equal(found.toarray(), [[0, 1, 0, 1], [0, 0, 0, 0], [1, 0, 0, 0]])

    NETFLIX = (
        (1, b"1:\n1488844,3,2005-09-06\n822109,5,2005-05-13\n"),
        (2, b"2:\n885013,4,2000-02-29\n"),
    )
    ROWS = (
        (1488844, 1, 3, 1125964800),
        (822109, 1, 5, 1115942400),
        (885013, 2, 4, 951782400),
    )

    def test_netflix_in_one_archive(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w") as archive:
            for film, text in self.NETFLIX:
                info = tarfile.TarInfo(f"training_set/mv_{film:07d}.txt")
                info.size = len(text)
                archive.addfile(info, io.BytesIO(text))
        put(folder / "netflix/training_set.tar", stream.getvalue())
        with pytest.raises(DataError, match=r"expected training_set/mv_0000003\.txt in it"):
            data.netflix()
        monkeypatch.setattr(large_ratings, "_FILMS", 2)
        self.check(data.netflix())

    @pytest.mark.parametrize("end", [b"\n", b"\r\n"])
    def test_netflix_in_four_files(self, folder: Path, end: bytes) -> None:
        texts = [text.replace(b"\n", end) for _, text in self.NETFLIX]
        texts += [b"3:\n9,1,1999-12-31", b"4:\n10,2,2001-01-01\n5:\n11,4,2001-01-02\n"]
        for part, text in enumerate(texts, 1):
            put(folder / f"netflix/combined_data_{part}.txt", text)
        ratings = data.netflix()
        assert ratings.item.tolist() == [1, 1, 2, 3, 4, 5]
        assert ratings.liked.tolist() == [0, 1, 1, 0, 0, 1]
        assert ratings.timestamp[3] == 946598400
        put(folder / "netflix/combined_data_2.txt", b"2:\n885013,4\n")
        with pytest.raises(DataError, match="user, rating and date for film 2, got others"):
            data.netflix()
        put(folder / "netflix/combined_data_2.txt", b"hello\n")
        with pytest.raises(DataError, match="expected films such as '1:', got none"):
            data.netflix()

    def check(self, ratings: data.Ratings) -> None:
        columns = (ratings.user, ratings.item, ratings.rating, ratings.timestamp)
        assert tuple(tuple(map(int, row)) for row in zip(*columns, strict=True)) == self.ROWS
        assert ratings.liked.tolist() == [0, 1, 1]

    def test_million_song(self, folder: Path) -> None:
        path = folder / "million-song/train_triplets.txt.zip"
        path.parent.mkdir()
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("train_triplets.txt", "u1\tSO1\t1\nu1\tSO2\t5\nu2\tSO1\t12\n")
        plays = data.million_song()
        assert plays.users == ("u1", "u2")
        assert plays.songs == ("SO1", "SO2")
        assert plays.user.tolist() == [0, 0, 1]
        assert plays.song.tolist() == [0, 1, 0]
        assert plays.count.tolist() == [1, 5, 12]
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("train_triplets.txt", "u1\tSO1\n")
        with pytest.raises(DataError, match=r"expected user, song and count with tabs, got b'u1"):
            data.million_song()

    def test_parts_of_another_file(self, folder: Path) -> None:
        with zipfile.ZipFile(put(folder / "movielens-1m/ml-1m.zip", b""), "w") as archive:
            archive.writestr("ml-1m/ratings.dat", "1::1193::5::978300760\n2::5::4::978300761\n")
        path = put(folder / "movielens-1m-infinite-ae/ml1m_part.npz", b"")
        np.savez(path, part=np.array([0, 2, 1], np.uint8))
        with pytest.raises(DataError, match=r"a part for each of 2 ratings, got \(3,\)"):
            data.movielens_infinite_ae()
        np.savez(path, part=np.array([0, 2], np.uint8))
        split = data.movielens_infinite_ae()
        np.testing.assert_array_equal(split.train.toarray(), [[0, 1], [0, 0]])
        np.testing.assert_array_equal(split.test.toarray(), [[0, 0], [1, 0]])
