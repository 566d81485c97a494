"""What every recommender can do: batches, draws, candidates, files."""

import json
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from scipy.sparse import csr_array
from torch import Tensor

from dubio.recommend import Catalogue, Ids, Popular, Recommender, recommender, storage
from dubio.recommend.best import best
from dubio.recommend.histories import histories
from dubio.recommend.keyed_noise import Seeds, draw_seeds, normal, user_keys
from dubio.recommend.storage import take

USERS, ITEMS = 40, 12


class Wobbly(Recommender):
    """Popularity plus normal noise, an own number for each user and item."""

    stochastic = True

    def __init__(self, noise: float = 1.0) -> None:
        self.noise = noise

    def fit(self, user_items: Any, validation: tuple[Any, Any] | None = None) -> Self:
        self._items = user_items.shape[1]
        self._shares = torch.from_numpy(histories(user_items).mean(0)).float()
        return self

    def _scores(self, histories: csr_array, seeds: Seeds | None) -> Tensor:
        scores = self._shares.repeat(histories.shape[0], 1)
        if seeds is None:
            return scores
        return scores + self.noise * normal(seeds[:, None], range(self._items))

    def _embed(self, histories: csr_array) -> Tensor:
        return torch.from_numpy(histories.toarray()[:, :2])

    def _state(self) -> dict[str, Tensor]:
        return {"shares": self._shares}

    def _set_state(self, tensors: dict[str, Tensor]) -> None:
        self._shares = take(tensors, "shares", (self._items,))


@pytest.fixture
def matrix() -> csr_array:
    rng = np.random.default_rng(0)
    seen = rng.random((USERS, ITEMS)) < np.linspace(0.1, 0.6, ITEMS)
    return csr_array(seen.astype(np.float32))


@pytest.fixture
def model(matrix: csr_array) -> Wobbly:
    return Wobbly().fit(matrix)


def all_draws(model: Wobbly, matrix: csr_array, seed: int, count: int) -> Tensor:
    keys = user_keys(np.arange(matrix.shape[0]))
    draws = [model._scores(matrix, draw_seeds(seed, keys, draw)) for draw in range(count)]
    return torch.stack(draws)  # (S, B, I)


class TestScores:
    def test_mean_and_spread_are_those_of_a_loop(self, model: Wobbly, matrix: csr_array) -> None:
        found = model.recommend(matrix, ITEMS, draws=7, generator=3, exclude_seen=False)
        draws = all_draws(model, matrix, 3, 7)
        for user, ids in enumerate(found.ids):
            assert sorted(ids) == list(range(ITEMS))
            np.testing.assert_allclose(found.scores[user], draws[:, user].mean(0)[ids], atol=1e-6)
            np.testing.assert_allclose(found.spread[user], draws[:, user].std(0)[ids], rtol=1e-5)
            assert (np.diff(found.scores[user]) <= 0).all()

    def test_the_upper_bound(self, model: Wobbly, matrix: csr_array) -> None:
        found = model.recommend(
            matrix, ITEMS, draws=5, explore="upper", width=2.0, exclude_seen=False
        )
        draws = all_draws(model, matrix, 0, 5)
        bound = draws.mean(0) + 2 * draws.std(0)
        expected, ids = bound.sort(1, descending=True)
        np.testing.assert_array_equal(found.ids, ids)
        np.testing.assert_allclose(found.scores, expected, rtol=1e-5)

    def test_thompson_is_one_draw(self, model: Wobbly, matrix: csr_array) -> None:
        found = model.recommend(matrix, 3, explore="thompson", generator=4, exclude_seen=False)
        expected, ids = all_draws(model, matrix, 4, 1)[0].topk(3)
        np.testing.assert_array_equal(found.ids, ids)
        np.testing.assert_array_equal(found.scores, expected)
        assert np.isnan(found.spread).all()

    def test_no_draws_are_a_pass_without_noise(self, model: Wobbly, matrix: csr_array) -> None:
        found = model.recommend(matrix, ITEMS, draws=0, exclude_seen=False)
        np.testing.assert_array_equal(found.scores, model._shares[found.ids])
        assert np.isnan(found.spread).all()

    def test_without_noise_the_spread_is_0(self, matrix: csr_array) -> None:
        for explore in ("mean", "upper", "thompson"):
            found = Popular().fit(matrix).recommend(matrix, 2, explore=explore)  # type: ignore[arg-type]
            assert (found.spread == 0).all()


class TestNoise:
    @pytest.mark.parametrize("explore", ["mean", "thompson", "upper"])
    def test_it_does_not_depend_on_the_batch(
        self, model: Wobbly, matrix: csr_array, explore: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        whole = model.recommend(matrix, 4, explore=explore, draws=3)
        monkeypatch.setattr(recommender, "_USERS", 7)
        parts = model.recommend(matrix, 4, explore=explore, draws=3)
        np.testing.assert_array_equal(whole.ids, parts.ids)
        np.testing.assert_array_equal(whole.scores, parts.scores)
        np.testing.assert_array_equal(whole.spread, parts.spread)
        some = [30, 2, 11]
        alone = model.recommend(matrix[some], 4, explore=explore, draws=3, users=some)
        np.testing.assert_array_equal(whole.ids[some], alone.ids)
        np.testing.assert_array_equal(whole.scores[some], alone.scores)

    def test_thompson_stays_until_the_seed_changes(self, model: Wobbly, matrix: csr_array) -> None:
        def ids(seed: int, users: list[str]) -> Any:
            rows = matrix[:2]
            return model.recommend(
                rows, 5, explore="thompson", generator=seed, users=users, exclude_seen=False
            ).ids

        monday = ids(1, ["ann", "bob"])
        np.testing.assert_array_equal(monday, ids(1, ["ann", "bob"]))
        np.testing.assert_array_equal(monday[::-1], ids(1, ["bob", "ann"]))
        assert (monday != ids(2, ["ann", "bob"])).any()
        assert (monday != ids(1, ["cem", "dia"])).any()

    def test_a_generator_moves_on_and_the_global_one_does_not(
        self, model: Wobbly, matrix: csr_array
    ) -> None:
        before = torch.get_rng_state()
        generator = torch.Generator().manual_seed(0)
        first = model.recommend(matrix, explore="thompson", generator=generator)
        second = model.recommend(matrix, explore="thompson", generator=generator)
        assert (first.ids != second.ids).any()
        assert torch.equal(before, torch.get_rng_state())


class TestCandidates:
    def test_seen_items_are_left_out(self, model: Wobbly, matrix: csr_array) -> None:
        found = model.recommend(matrix, ITEMS)
        seen = matrix.toarray() > 0
        for user in range(USERS):
            items = found.ids[user][found.found[user]]
            assert sorted(items) == np.flatnonzero(~seen[user]).tolist()

    def test_what_is_not_found_is_marked(self, model: Wobbly, matrix: csr_array) -> None:
        found = model.recommend(matrix, ITEMS + 3, exclude_seen=False)
        assert found.ids.shape == (USERS, ITEMS + 3)
        assert (found.ids[:, ITEMS:] == -1).all()
        assert (found.scores[:, ITEMS:] == -np.inf).all()
        assert np.isnan(found.spread[:, ITEMS:]).all()
        assert found.found[:, :ITEMS].all()
        assert not found.found[:, ITEMS:].any()

    def test_items_and_exclusions(self, model: Wobbly, matrix: csr_array) -> None:
        found = model.recommend(matrix, 5, items=[1, 3, 5, 7], exclude=[3], exclude_seen=False)
        assert {tuple(sorted(ids)) for ids in found.ids} == {(-1, -1, 1, 5, 7)}

    def test_exclusions_by_user(
        self, model: Wobbly, matrix: csr_array, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(recommender, "_USERS", 7)
        barred = np.random.default_rng(1).random((USERS, ITEMS)) < 0.5
        found = model.recommend(matrix, ITEMS, exclude=csr_array(barred), exclude_seen=False)
        for user in range(USERS):
            items = found.ids[user][found.found[user]]
            assert sorted(items) == np.flatnonzero(~barred[user]).tolist()

    def test_all_excluded(self, model: Wobbly, matrix: csr_array) -> None:
        for options in ({"exclude": range(ITEMS)}, {"items": []}):
            found = model.recommend(matrix, 2, **options)
            assert not found.found.any()
            assert len(found.to_frame()) == 0

    def test_no_users_and_an_empty_history(self, model: Wobbly, matrix: csr_array) -> None:
        assert model.recommend(csr_array((0, ITEMS)), 2).ids.shape == (0, 2)
        assert model.recommend(csr_array((1, ITEMS)), 2).found.all()

    def test_nothing_of_the_user_is_changed(self, model: Wobbly, matrix: csr_array) -> None:
        before = matrix.copy()
        shares = model._shares.clone()
        model.recommend(matrix, 3)
        assert (matrix != before).nnz == 0
        assert torch.equal(model._shares, shares)


class TestTies:
    @pytest.mark.parametrize("seed", range(20))
    def test_against_a_stable_sort(self, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        scores = torch.randint(0, 4, (30, 25), generator=generator).float()
        scores[torch.rand(30, 25, generator=generator) < 0.2] = -torch.inf
        scores[3] = -torch.inf
        for n in (1, 5, 24, 25, 26):
            values, ids = best(scores, n)
            expected, order = scores.sort(dim=1, descending=True, stable=True)
            assert torch.equal(values, expected[:, :n])
            there = values > -torch.inf
            assert torch.equal(ids[there], order[:, :n][there])

    def test_nan_is_an_error(self) -> None:
        with pytest.raises(ValueError, match="scores: expected numbers, got NaN"):
            best(torch.tensor([[1.0, torch.nan, 2.0]]), 1)


class TestFiles:
    def test_there_and_back(self, model: Wobbly, matrix: csr_array, tmp_path: Path) -> None:
        model.catalogue = Catalogue(Ids(["ü", 5], "user"), Ids(range(ITEMS), "item"))
        model.noise = 0.25
        model.save(tmp_path / "model.safetensors")
        assert [path.name for path in tmp_path.iterdir()] == ["model.safetensors"]
        for back in (Recommender.load(tmp_path / "model.safetensors"),
                     Wobbly.load(tmp_path / "model.safetensors")):  # fmt: skip
            assert isinstance(back, Wobbly)
            assert back.noise == 0.25
            assert back.catalogue == model.catalogue
            np.testing.assert_array_equal(
                back.recommend(matrix, generator=1).scores,
                model.recommend(matrix, generator=1).scores,
            )

    def test_a_failed_save_leaves_the_former_file(self, model: Wobbly, tmp_path: Path) -> None:
        path = tmp_path / "model.safetensors"
        model.save(path)
        before = path.read_bytes()
        model.noise = object()  # type: ignore[assignment]
        with pytest.raises(TypeError):
            model.save(path)
        assert path.read_bytes() == before
        assert len(list(tmp_path.iterdir())) == 1

    def test_a_crash_leaves_the_former_file(
        self, model: Wobbly, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The new content is complete before it takes the place of the former."""
        path = tmp_path / "model.safetensors"
        model.save(path)
        before = path.read_bytes()

        def crash(source: Path, target: Path) -> None:
            assert source.stat().st_size >= len(before)
            assert target.read_bytes() == before
            raise OSError("no power")

        monkeypatch.setattr(storage.os, "replace", crash)
        with pytest.raises(OSError, match="no power"):
            model.save(path)
        assert path.read_bytes() == before
        assert [file.name for file in tmp_path.iterdir()] == [path.name]

    def test_another_class(self, matrix: csr_array, tmp_path: Path) -> None:
        Popular().fit(matrix).save(tmp_path / "model")
        with pytest.raises(ValueError, match="expected one of Wobbly, got Popular"):
            Wobbly.load(tmp_path / "model")

    def test_foreign_files(self, tmp_path: Path) -> None:
        path = tmp_path / "model"
        with pytest.raises(FileNotFoundError, match="expected a file of a saved model, got none"):
            Popular.load(path)
        path.write_text("hello")
        with pytest.raises(ValueError, match="expected a whole safetensors file"):
            Popular.load(path)
        save_file({"a": torch.ones(1)}, path)
        with pytest.raises(ValueError, match="got tensors of something else"):
            Popular.load(path)
        save_file({"a": torch.ones(1)}, path, metadata={"format": "dubio.recommend 99"})
        with pytest.raises(ValueError, match=r"got dubio\.recommend 99; save the model with this"):
            Popular.load(path)

    def test_wrong_shapes(self, tmp_path: Path) -> None:
        about = json.dumps({"kind": "Popular", "settings": {}, "items": 3})
        metadata = {"format": "dubio.recommend 1", "about": about}
        for tensors, got in (({"shares": torch.ones(2)}, r"shape \(2,\)"), ({}, "none")):
            save_file(tensors, tmp_path / "model", metadata=metadata)
            with pytest.raises(ValueError, match=rf"shape \(3,\) in the file, got {got}"):
                Popular.load(tmp_path / "model")

    def test_ids_that_json_does_not_keep(self, model: Wobbly, tmp_path: Path) -> None:
        model.catalogue = Catalogue(Ids([]), Ids([date.fromordinal(i + 1) for i in range(ITEMS)]))
        with pytest.raises(TypeError, match=r"expected items that are numbers, .*, got date"):
            model.save(tmp_path / "model")


class TestOtherQuestions:
    def test_similar_items_are_those_for_a_history_of_one(
        self, model: Wobbly, matrix: csr_array
    ) -> None:
        found = model.similar_items([2, 5], 4)
        assert 2 not in found.ids[0]
        alone = csr_array(np.eye(ITEMS)[[2, 5]])
        np.testing.assert_array_equal(found.ids, model.recommend(alone, 4, draws=0).ids)

    def test_embeddings_by_batches(
        self, model: Wobbly, matrix: csr_array, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(recommender, "_USERS", 7)
        np.testing.assert_array_equal(model.embed(matrix), matrix.toarray()[:, :2])
        assert model.embed(csr_array((0, ITEMS))).shape == (0, 2)
        with pytest.raises(TypeError, match="got Popular, which has none"):
            Popular().fit(matrix).embed(matrix)


class TestRefused:
    def test_a_model_that_was_not_fitted(self, matrix: csr_array) -> None:
        with pytest.raises(RuntimeError, match=r"Popular: expected a fitted model.*call fit"):
            Popular().recommend(matrix)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"n": 0}, "n: expected a whole number from 1, got 0"),
            ({"draws": -1}, "draws: expected a whole number from 0, got -1"),
            ({"draws": 1, "explore": "upper"}, "draws: expected at least 2 for explore='upper'"),
            ({"explore": "luck"}, "explore: expected one of mean, thompson, upper, got 'luck'"),
            ({"items": [0, 12]}, r"items: expected positions from 0 to 11, got \[12\]"),
            ({"exclude": [-1]}, r"exclude: expected positions from 0 to 11, got \[-1\]"),
            ({"exclude": csr_array((3, ITEMS))}, "exclude: expected a row for each of the 40"),
            ({"users": [1]}, "users: expected an id for each of the 40 rows, got 1"),
        ],
    )
    def test_options(
        self, model: Wobbly, matrix: csr_array, options: dict[str, Any], message: str
    ) -> None:
        with pytest.raises(ValueError, match=message):
            model.recommend(matrix, **options)

    def test_kinds_of_items(self, model: Wobbly, matrix: csr_array) -> None:
        with pytest.raises(TypeError, match=r"got bool of shape .* give numpy\.flatnonzero"):
            model.recommend(matrix, items=np.ones(ITEMS, bool))
        with pytest.raises(TypeError, match=r"give catalogue\.items\.positions"):
            model.recommend(matrix, exclude=["Heat"])

    def test_another_orientation(self, model: Wobbly, matrix: csr_array) -> None:
        with pytest.raises(ValueError, match=r"got shape \(12, 40\); transpose it: user_items\.T"):
            model.recommend(matrix.T)


def test_importing_dubio_needs_no_extra() -> None:
    program = """
import sys
sys.modules["scipy"] = None
import dubio
assert "recommend" in dir(dubio)
try:
    dubio.recommend
except ImportError as error:
    assert "pip install 'dubio[recommend]'" in str(error), error
else:
    raise SystemExit("no error")
"""
    subprocess.run([sys.executable, "-c", program], check=True)
