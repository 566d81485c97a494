"""Arguments that are wrong: errors say what was expected, what came and what to do."""

import numpy as np
import pytest
import torch

from dubio import recommend
from dubio.recommend.arguments import number, one_of, whole
from even_and_odd import DATA, ITEMS, PARTS, QUICK, SOME, vae


@pytest.fixture(scope="module")
def fitted():
    return vae().fit(DATA, **QUICK)


@pytest.mark.parametrize("value", [0, 2.0, True, "3", None, np.float64(3), 9])
def test_whole_numbers(value):
    with pytest.raises(ValueError, match=r"^n: expected a whole number from 1 to 8, got .*; say"):
        whole(1, below=9, advice="say")("n", value)
    assert type(whole(1, below=9)("n", np.int64(8))) is int


@pytest.mark.parametrize("value", [0, 1, True, "0.5", None, np.nan, np.inf, 1j])
def test_numbers(value):
    with pytest.raises(ValueError, match=r"^x: expected a finite number above 0 and below 1, got"):
        number(above=0, below=1)("x", value)
    assert type(number(above=0, below=1)("x", np.float32(0.5))) is float
    assert number(least=0)("x", 0) == 0
    with pytest.raises(ValueError, match="of 0 or more, got -1"):
        number(least=0)("x", -1)


@pytest.mark.parametrize("value", ["c", None, ["a"]])
def test_words(value):
    with pytest.raises(ValueError, match=r"^w: expected one of a, b, got"):
        one_of("a", "b")("w", value)


@pytest.mark.parametrize("width", [np.nan, np.inf, "2"])
def test_a_width_is_a_finite_number(fitted, width):
    with pytest.raises((ValueError, TypeError), match="width: expected"):
        fitted.recommend(SOME, explore="upper", width=width)


def test_one_string_is_not_a_list_of_users(fitted):
    """Also if it has as many letters as there are rows."""
    with pytest.raises((ValueError, TypeError), match="users: expected"):
        fitted.recommend(SOME, users="abcd")


def frame_of(**columns):
    return recommend.from_frame(columns)


@pytest.mark.parametrize(
    "call",
    [
        lambda model: model.recommend(SOME, n=2.0),
        lambda model: model.recommend(SOME, n="3"),
        lambda model: model.recommend(SOME, n=True),
        lambda model: model.recommend(SOME, draws="a"),
        lambda model: model.recommend(SOME, draws=2.0),
        lambda model: model.recommend(SOME, users=np.arange(4).reshape(4, 1)),
        lambda model: model.recommend(SOME, users=["a", ["b", "c"], "d", "e"]),
        lambda model: recommend.evaluate(model, *PARTS.test, []),
        lambda model: recommend.evaluate(model, *PARTS.test, n=2.5),
        lambda model: recommend.evaluate(model, *PARTS.test, batch=2.5),
        lambda model: recommend.evaluate("model", *PARTS.test),
        lambda model: vae().fit(PARTS.train, PARTS.validation_fold_in, **QUICK),
        lambda model: vae().fit(DATA, seed=None, **QUICK),
        lambda model: vae().fit(DATA, seed=-1, **QUICK),
        lambda model: vae().fit(DATA, seed=1.5, **QUICK),
        lambda model: vae().fit(DATA, learning_rate="a", **QUICK),
        lambda model: vae(mask="Bernoulli").fit(DATA, **QUICK),
        lambda model: vae(mask=torch.nn.Dropout).fit(DATA, **QUICK),
        lambda model: vae(weight_decay="a").fit(DATA, **QUICK),
        lambda model: recommend.EASE("500").fit(DATA),
        lambda model: setattr(model, "catalogue", [f"film {k}" for k in range(ITEMS)]),
        lambda model: recommend.by_users(DATA, 0.1, 0.1),
        lambda model: recommend.by_users(DATA, 1, 1, seed="a"),
        lambda model: frame_of(user=[1, 2, 3], item=[1, 2]),
        lambda model: frame_of(user=[1, 2], item=[["a"], ["b"]]),
        lambda model: recommend.from_frame({"user": [1], "item": ["a"]}, items=["a", "b"]),
    ],
    ids=[
        "n float", "n string", "n bool", "draws string", "draws float", "users 2d",
        "users ragged", "no metric", "evaluate n", "evaluate batch", "not a model",
        "validation one matrix", "seed none", "seed negative", "seed float", "rate string",
        "mask name", "mask of torch", "weight decay string", "EASE string", "catalogue list",
        "by_users shares", "by_users seed", "columns of two lengths", "ids unhashable",
        "items list",
    ],
)  # fmt: skip
def test_an_error_says_what_was_expected(call):
    model = recommend.EASE(5.0).fit(DATA)
    with pytest.raises((TypeError, ValueError), match=r"expected .*got"):
        call(model)


def test_draws_of_a_model_are_checked():
    model = vae().fit(DATA, **QUICK)
    model.draws = -1
    with pytest.raises(ValueError, match="draws: expected"):
        model.recommend(SOME)


def altered(model, folder):
    """A file with one altered bit in its header."""
    model.save(folder / "model")
    content = (folder / "model").read_bytes()
    (folder / "model").write_bytes(content.replace(b"settings", b"settingr", 1))
    return recommend.Recommender.load(folder / "model")


def test_an_altered_header_is_a_damaged_file(tmp_path):
    ease = recommend.EASE(5.0).fit(DATA)
    with pytest.raises(ValueError, match="expected the description of a model, got a damaged"):
        altered(ease, tmp_path)


def test_a_cdae_that_is_not_fitted_says_so():
    with pytest.raises(RuntimeError, match="expected a fitted model"):
        recommend.CDAE().recommend(SOME)


def test_interactions_are_told_what_to_pass():
    with pytest.raises(TypeError, match=r"\.user_items"):
        recommend.EASE().fit(recommend.from_frame({"user": [1], "item": [2]}))
