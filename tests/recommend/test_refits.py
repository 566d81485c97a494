"""Fits that fail, are refused or are repeated, and what they leave behind."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from dubio import masks, recommend
from dubio.recommend import autoencoder
from dubio.training.checkpoint import CheckpointError
from dubio.training.guard import NonFiniteError
from even_and_odd import DATA, ITEMS, PARTS, QUICK, USERS, scores, tastes, vae


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({}, {"drop": 0.3}),
        ({}, {"mixture": 2}),
        ({"mask": masks.LearnableBernoulli}, {"mask": masks.Concrete}),
        (
            {"mask": masks.LearnableBernoulli},
            {"mask": masks.LearnableBernoulli, "estimator": "arm"},
        ),
        (
            {"mask": masks.LearnableBernoulli, "mixture": 3},
            {"mask": masks.LearnableBernoulli, "mixture": 3, "decodings": 2},
        ),
    ],
    ids=["drop", "mixture", "mask", "estimator", "decodings"],
)
def test_a_checkpoint_of_other_settings_is_refused(tmp_path, first, second):
    vae(**first).fit(DATA, checkpoint=tmp_path / "run.pt", **QUICK)
    with pytest.raises(CheckpointError):
        vae(**second).fit(DATA, checkpoint=tmp_path / "run.pt", **QUICK)


@pytest.mark.parametrize("validation", [None, PARTS.test], ids=["none", "other users"])
def test_a_checkpoint_with_another_validation_is_refused(tmp_path, validation):
    """The best epoch depends on it, and so do the weights that are kept."""
    path = tmp_path / "run.pt"
    vae().fit(PARTS.train, PARTS.validation, checkpoint=path, **QUICK)
    with pytest.raises(CheckpointError):
        vae().fit(PARTS.train, validation, checkpoint=path, **QUICK)


@pytest.mark.parametrize("before", [True, False], ids=["fitted before", "new"])
def test_a_fit_that_refuses_its_checkpoint_leaves_the_model_alone(tmp_path, before):
    path = tmp_path / "run.pt"
    vae().fit(DATA, checkpoint=path, **QUICK)
    model = vae().fit(DATA, **QUICK) if before else vae()
    expected = scores(model) if before else None
    with pytest.raises(CheckpointError):
        model.fit(tastes(seed=1), checkpoint=path, **QUICK)
    if before:
        np.testing.assert_array_equal(scores(model), expected)
    else:
        with pytest.raises(RuntimeError, match="expected a fitted model"):
            scores(model)


def test_beta_that_is_to_be_validated_needs_a_validation():
    """Without one no epoch is the best, and β would go to 1."""
    with pytest.raises(ValueError, match="validation"):
        vae(beta="validate").fit(DATA, **QUICK)


def test_a_fit_that_ends_with_weights_that_are_not_finite_says_so():
    """Losses are those before a step; here the only step breaks the scores."""
    model = vae()
    with pytest.raises(NonFiniteError):
        model.fit(DATA, epochs=1, batch_size=USERS, learning_rate=1e37, progress=False)


def test_weights_that_are_not_finite_are_found_in_the_validation_too():
    with pytest.raises(NonFiniteError):
        vae().fit(
            PARTS.train,
            PARTS.validation,
            epochs=1,
            batch_size=100,
            learning_rate=1e37,
            progress=False,
        )


def test_a_fit_that_diverges_leaves_finite_weights():
    model = vae().fit(DATA, **QUICK)
    expected = scores(model)
    with pytest.raises(NonFiniteError):
        model.fit(DATA, **{**QUICK, "learning_rate": 1e30})
    np.testing.assert_array_equal(scores(model), expected)


def test_a_refit_forgets_the_names_of_other_data():
    """Also if there are as many items: these may be others."""
    model = recommend.EASE(5.0).fit(DATA)
    model.catalogue = recommend.Catalogue(
        recommend.Ids(range(USERS)), recommend.Ids([f"film {k}" for k in range(ITEMS)])
    )
    model.fit(tastes(seed=1))
    assert model.catalogue is None


@pytest.mark.parametrize("model", [recommend.EASE(), recommend.Popular()], ids=["EASE", "Popular"])
@pytest.mark.parametrize("shape", [(0, 0), (5, 0), (0, 5), (5, 5)])
def test_nothing_to_fit_is_an_error(model, shape):
    with pytest.raises(ValueError, match="expected interactions"):
        model.fit(csr_array(shape))


def test_weights_do_not_depend_on_the_default_dtype():
    fitted = vae().fit(DATA, **QUICK)
    torch.set_default_dtype(torch.float64)
    try:
        found = scores(vae().fit(DATA, **QUICK))
    finally:
        torch.set_default_dtype(torch.float32)
    np.testing.assert_allclose(found, scores(fitted), rtol=1e-4)


def test_seeds_may_be_integers_of_numpy():
    fitted = vae().fit(DATA, **QUICK)
    model = vae().fit(DATA, seed=np.int64(0), **QUICK)
    np.testing.assert_array_equal(scores(model), scores(fitted))


def test_an_interrupt_before_the_first_step_leaves_the_model_alone(monkeypatch):
    model = vae().fit(DATA, **QUICK)
    expected, history = scores(model), model.history

    def interrupted(run):
        raise KeyboardInterrupt

    monkeypatch.setattr(autoencoder.TrainingRun, "steps", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(tastes(seed=1), **QUICK)
    np.testing.assert_array_equal(scores(model), expected)
    assert model.history == history


def test_settings_are_checked_again_when_they_have_changed():
    model = vae()
    model.hidden = 2.5
    with pytest.raises(ValueError, match="hidden: expected a whole number"):
        model.fit(DATA, **QUICK)
