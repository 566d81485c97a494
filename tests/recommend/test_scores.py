"""Scores of given items, and the noise of users."""

import numpy as np
import pytest
from scipy.sparse import csr_array, vstack

from even_and_odd import DATA, ITEMS, QUICK, SOME, vae


@pytest.fixture(scope="module")
def fitted():
    return vae().fit(DATA, **QUICK)


def test_scores_of_given_items_are_those_of_recommendations(fitted):
    best = fitted.recommend(SOME, ITEMS, exclude_seen=False, generator=3)
    for items in (best.ids, best.ids[:, ::-1]):
        found = fitted.score(SOME, items, generator=3)
        order = slice(None, None, 1 if items is best.ids else -1)
        np.testing.assert_array_equal(found.ids, items)
        np.testing.assert_array_equal(found.scores, best.scores[:, order])
        np.testing.assert_array_equal(found.spread, best.spread[:, order])
        np.testing.assert_allclose(found.total, 1, rtol=1e-5)
    same = fitted.score(SOME, [5, 2], draws=0)
    assert same.ids.tolist() == [[5, 2]] * 4
    assert fitted.score(SOME, []).ids.shape == (4, 0)
    with pytest.raises(ValueError, match=r"items: expected as many .* got shape \(3, 2\)"):
        fitted.score(SOME, [[1, 2]] * 3)
    with pytest.raises(ValueError, match="expected positions from 0 to 19, got"):
        fitted.score(SOME, [-1])


@pytest.mark.parametrize("ids", [[0, 2**64], [-1, 2**64 - 1]], ids=["modulo", "negative"])
def test_different_users_have_different_noise(fitted, ids):
    """Integers beyond 64 bits (UUIDs) and negative ones are hashed."""
    same = csr_array(vstack([SOME[:1], SOME[:1]]))
    found = fitted.recommend(same, n=10, users=ids, explore="thompson")
    assert not np.array_equal(found.scores[0], found.scores[1])


def test_different_seeds_have_different_noise(fitted):
    one, two = (
        fitted.recommend(SOME, explore="thompson", generator=seed).scores for seed in (0, 2**64)
    )
    assert not np.array_equal(one, two)


def test_the_total_of_bounds_is_no_total_of_probabilities(fitted):
    found = fitted.recommend(SOME, n=ITEMS, exclude_seen=False, explore="upper")
    assert np.isnan(found.total).all()
