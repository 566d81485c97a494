"""Names of items and users: in questions, in answers and in files."""

import numpy as np
import pytest

from dubio import recommend
from even_and_odd import DATA, ITEMS, PARTS, QUICK, SOME, USERS, scores, vae

FILMS = recommend.Ids([f"film {k}" for k in range(ITEMS)], "item")
NAMES = recommend.Catalogue(recommend.Ids([f"user {k}" for k in range(USERS)], "user"), FILMS)


@pytest.fixture
def ease():
    model = recommend.EASE(5.0).fit(DATA)
    model.catalogue = NAMES
    return model


@pytest.mark.parametrize("positions", [[0.9], [True, False]], ids=["float", "bool"])
def test_positions_of_ids_must_be_integers(positions):
    with pytest.raises(TypeError, match="expected"):
        recommend.Ids(["a", "b"]).ids(positions)


def test_recommended_items_have_names(ease):
    found = ease.recommend(SOME, n=3).ids
    expected = [[f"film {k}" for k in row] for row in found]
    assert NAMES.items.ids(found) == expected


@pytest.mark.parametrize("ids", [np.arange(ITEMS), np.arange(ITEMS).astype(str)])
def test_ids_from_a_numpy_array_can_be_saved(tmp_path, ids):
    model = recommend.EASE(5.0).fit(DATA)
    model.catalogue = recommend.Catalogue(recommend.Ids(range(USERS)), recommend.Ids(ids))
    model.save(tmp_path / "model")
    again = recommend.Recommender.load(tmp_path / "model")
    assert again.catalogue == model.catalogue


@pytest.mark.parametrize("make", [lambda k: ("film", k), float, lambda k: b"%d" % k])
def test_ids_that_a_catalogue_takes_can_be_saved(tmp_path, make):
    model = recommend.EASE(5.0).fit(DATA)
    names = recommend.Ids([make(k) for k in range(ITEMS)])
    model.catalogue = recommend.Catalogue(recommend.Ids(range(USERS)), names)
    model.save(tmp_path / "model")
    again = recommend.Recommender.load(tmp_path / "model")
    assert again.catalogue == model.catalogue


@pytest.mark.parametrize("ids", [[("a", 1), ("b", 2)], [1.0, 2.0]], ids=["tuples", "floats"])
def test_users_of_a_catalogue_can_be_given_to_recommend(ease, ids):
    found = ease.recommend(SOME[:2], n=1, users=list(recommend.Ids(ids)))
    assert found.to_frame()["user"].tolist() == ids


def test_rows_of_a_cdae_get_their_names():
    model = recommend.CDAE(hidden=8).fit(DATA, **QUICK)
    model.catalogue = NAMES
    frame = model.recommend(SOME, n=1, users=[0, 1, -7, 3]).to_frame()
    assert frame["user"].tolist() == ["user 0", "user 1", -7, "user 3"]


def test_a_loaded_model_averages_as_many_draws(tmp_path):
    model = vae().fit(DATA, **QUICK)
    model.draws = 3
    model.save(tmp_path / "model")
    again = recommend.Recommender.load(tmp_path / "model")
    np.testing.assert_array_equal(again.recommend(SOME).scores, model.recommend(SOME).scores)


def test_what_is_saved_can_be_loaded(tmp_path):
    """Settings are those of the weights, also if they were changed after the fit."""
    model = vae().fit(DATA, **QUICK)
    model.hidden = 16
    model.save(tmp_path / "model")
    again = recommend.Recommender.load(tmp_path / "model")
    np.testing.assert_array_equal(scores(again), scores(model))


def test_a_model_says_what_it_is():
    assert repr(recommend.EASE(5.0)) == "EASE(weight_decay=5.0)"
    assert repr(recommend.DAE(mask=None)) == "DAE(mask=None)"


def test_what_was_not_found_has_no_name(ease):
    found = ease.recommend(SOME, n=2, items=["film 3"])
    assert [row[1] for row in NAMES.items.ids(found.ids)] == [None] * 4


def test_items_may_be_given_by_name(ease):
    chosen = ["film 3", "film 8", "film 5"]
    by_name = ease.recommend(SOME, 3, items=chosen, exclude=["film 8"])
    by_position = ease.recommend(SOME, 3, items=[3, 8, 5], exclude=[8])
    np.testing.assert_array_equal(by_name.ids, by_position.ids)
    similar = ease.similar_items(["film 3"]).ids
    np.testing.assert_array_equal(similar, ease.similar_items([3]).ids)
    with pytest.raises(KeyError, match="got 'film 99', which are not in it"):
        ease.recommend(SOME, items=["film 99"])
    with pytest.raises(ValueError, match="other items than exclude, got"):
        recommend.evaluate(ease, *PARTS.test, exclude=list(FILMS))


def test_a_catalogue_of_the_items_that_a_split_keeps():
    parts = recommend.by_users(DATA, 5, 5, at_least=5)
    assert 0 < len(parts.items) < ITEMS
    chosen = NAMES.select(parts.items)
    assert list(chosen.items) == [f"film {k}" for k in parts.items]
    assert chosen.users == NAMES.users


def test_the_history_of_the_training_is_saved(tmp_path):
    model = vae().fit(PARTS.train, PARTS.validation, **QUICK)
    model.save(tmp_path / "model")
    again = recommend.Recommender.load(tmp_path / "model")
    assert again.history == model.history
    assert len(again.history) == 2
    assert again.best_epoch == model.best_epoch
    assert repr(again) == repr(model) == "VAE(hidden=8, latent=4, anneal=10)"
