"""What somebody new to `dubio.recommend` ran into: each test fails, and says what is expected."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.sparse import coo_array, csr_array, vstack

from dubio import masks, recommend
from dubio.training.checkpoint import CheckpointError
from dubio.training.guard import NonFiniteError

USERS, ITEMS = 60, 20
QUICK = {"epochs": 2, "batch_size": 20, "progress": False}


def tastes(users=USERS, seed=0):
    """Users of two kinds, who like even or odd items."""
    rng = np.random.default_rng(seed)
    alike = np.arange(users)[:, None] % 2 == np.arange(ITEMS) % 2
    return csr_array((rng.random((users, ITEMS)) < np.where(alike, 0.3, 0.04)).astype(np.float32))


DATA = tastes()
SOME = DATA[:4]
PARTS = recommend.by_users(DATA, 10, 10, at_least=2, held_out=0.5)


def vae(**settings):
    return recommend.VAE(**{"hidden": 8, "latent": 4, "anneal": 10, **settings})


def scores(model):
    return model.recommend(SOME, n=5, draws=0).scores


@pytest.fixture(scope="module")
def ease():
    return recommend.EASE(5.0).fit(DATA)


@pytest.fixture(scope="module")
def fitted():
    return vae().fit(DATA, **QUICK)


# --- Numbers that are wrong, and nobody says so ---


class Meeting:
    """Two threads inside of the mask at the same time: the first leaves it before the second."""

    def __init__(self):
        self.both, self.first_is_done = threading.Event(), threading.Event()
        self.inside = threading.Semaphore(1)

    def __call__(self):
        if self.inside.acquire(blocking=False):
            self.both.wait(1)  # a library with a lock goes on after a second
        else:
            self.both.set()
            self.first_is_done.wait(1)


@pytest.mark.parametrize("kind", [masks.LearnableBernoulli, masks.Concrete, masks.Bernoulli])
def test_threads_get_what_one_thread_gets_and_leave_the_model_alone(kind):
    """A service answers from several threads: `recommend` must not write to the shared network.

    `rates.multiplier` swaps the rates of the shared mask (`functional_call`). A thread reads those
    of another, and if they end in the order in which they began, the rates of a batch, one for each
    entry, stay in the network: `recommend`, `keep` and `save` are wrong from then on. Four threads
    with ordinary requests get there in a second: 60 of 60 answers wrong, and no error.
    """

    class Slow(kind):
        meet = staticmethod(lambda: None)

        def multiplier(self, axis, *noises):
            type(self).meet()
            return super().multiplier(axis, *noises)

    model = vae(mask=Slow)
    model.fit(DATA, **{**QUICK, "epochs": 20, "learning_rate": 0.02, "rate_learning_rate": 0.1})
    lengths = np.diff(DATA.indptr)
    one, two = np.flatnonzero(lengths == 4)[:2]  # of equal lengths, so that no shape is wrong
    keep = model.keep.copy()
    expected = [model.recommend(DATA[[user]], draws=1, users=[0]).scores for user in (one, two)]

    meeting = Meeting()
    Slow.meet = staticmethod(meeting)
    found = {}

    def ask(user):
        found[user] = model.recommend(DATA[[user]], draws=1, users=[0]).scores

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(ask, one)
        time.sleep(0.1)
        second = pool.submit(ask, two)
        first.result()
        meeting.first_is_done.set()
        second.result()
    Slow.meet = staticmethod(lambda: None)
    np.testing.assert_array_equal(model.keep, keep)
    np.testing.assert_array_equal(found[one], expected[0])
    np.testing.assert_array_equal(found[two], expected[1])


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
    """The second model comes back with the weights (and `keep`) of the first one, silently."""
    vae(**first).fit(DATA, checkpoint=tmp_path / "run.pt", **QUICK)
    with pytest.raises(CheckpointError):
        vae(**second).fit(DATA, checkpoint=tmp_path / "run.pt", **QUICK)


@pytest.mark.parametrize("validation", [None, PARTS.test], ids=["none", "other users"])
def test_a_checkpoint_with_another_validation_is_refused(tmp_path, validation):
    """The best epoch depends on the validation, and so do the weights that are kept."""
    path = tmp_path / "run.pt"
    vae().fit(PARTS.train, PARTS.validation, checkpoint=path, **QUICK)
    with pytest.raises(CheckpointError):
        vae().fit(PARTS.train, validation, checkpoint=path, **QUICK)


@pytest.mark.parametrize("before", [True, False], ids=["fitted before", "new"])
def test_a_fit_that_refuses_its_checkpoint_leaves_the_model_alone(tmp_path, before):
    """Now the model has random weights after the error, and recommends from them.

    A first-rate library checks first, and replaces the old network only when it starts.
    """
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


@pytest.mark.parametrize("per_user", [False, True])
def test_times_that_are_nan_are_an_error(per_user):
    """One NaN among the times, and nothing at all is held out; `from_frame` does refuse them."""
    times = np.arange(DATA.nnz, dtype=float)
    times[5] = np.nan
    with pytest.raises(ValueError, match="times: expected"):
        recommend.by_time(DATA, times, 0.1, 0.1, per_user=per_user)


def test_events_of_one_second_keep_their_order():
    """Clicks have milliseconds. They are cut to seconds, and ties go by item number."""
    moments = pd.Timestamp("2021-01-01") + pd.to_timedelta(np.arange(10)[::-1] * 50, unit="ms")
    frame = pd.DataFrame({"user": 0, "item": np.arange(10), "at": moments})
    seen = recommend.from_frame(frame, time="at")
    parts = recommend.by_time(seen.user_items, seen.times, 0.0, 0.1, per_user=True)
    assert parts.test_held_out.indices.tolist() == [0]  # the last event


def test_duplicates_of_small_integers_are_still_an_interaction():
    """Entry (0, 0) is stored as 200 and 56; the sum is 0 in uint8, and the interaction is lost.

    "Any positive entry is one interaction, however large it is and however often it is stored."
    """
    counts = coo_array((np.array([200, 56], np.uint8), ([0, 0], [0, 0])), shape=(1, 2))
    assert recommend.histories(counts).toarray().tolist() == [[1.0, 0.0]]


def test_a_loaded_model_averages_as_many_draws(tmp_path):
    """`draws` is an attribute of the model, but is not in the file: other scores after loading."""
    model = vae().fit(DATA, **QUICK)
    model.draws = 3
    model.save(tmp_path / "model")
    again = recommend.Recommender.load(tmp_path / "model")
    np.testing.assert_array_equal(again.recommend(SOME).scores, model.recommend(SOME).scores)


@pytest.mark.parametrize("positions", [[0.9], [True, False]], ids=["float", "bool"])
def test_positions_of_ids_must_be_integers(positions):
    """0.9 becomes 0 and a mask becomes [1, 0]. `items=` refuses both, with a good error."""
    with pytest.raises(TypeError, match="expected"):
        recommend.Ids(["a", "b"]).ids(positions)


def test_beta_that_is_to_be_validated_needs_a_validation():
    """Without one β goes to 1, and "the best epoch decides" is not true."""
    with pytest.raises(ValueError, match="validation"):
        vae(beta="validate").fit(DATA, **QUICK)


def test_a_fit_that_ends_with_weights_that_are_not_finite_says_so():
    """The loss is checked before a step, so that the last step may break everything silently."""
    model = vae()
    with pytest.raises(NonFiniteError):
        model.fit(DATA, epochs=1, batch_size=USERS, learning_rate=1e37, progress=False)


def test_weights_that_are_not_finite_are_found_in_the_validation_too():
    """With a validation the same mistake is a ValueError about scores."""
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
    """The message says "No weight has been changed by this step"; the model is useless anyway.

    A first-rate library gives back the last weights with a finite loss, or what was there before.
    """
    model = vae().fit(DATA, **QUICK)
    expected = scores(model)
    with pytest.raises(NonFiniteError):
        model.fit(DATA, **{**QUICK, "learning_rate": 1e30})
    np.testing.assert_array_equal(scores(model), expected)


def test_the_embedding_of_a_cdae_knows_who_the_user_is():
    """`recommend` insists on `users`; `embed` silently leaves the vectors of the users out."""
    model = recommend.CDAE(hidden=8).fit(DATA, **{**QUICK, "epochs": 20, "learning_rate": 0.05})
    same = csr_array(vstack([SOME[:1], SOME[:1]]))
    found = model.embed(same, users=[0, 1])
    assert not np.allclose(found[0], found[1])


@pytest.mark.parametrize("prior", ["normal", "vamp"])
def test_the_embedding_of_an_empty_history_is_the_mean_of_the_prior(prior):
    """`recommend` answers an empty history from the prior, `embed` from the encoder of zeros."""
    model = vae(prior=prior, pseudo_inputs=5).fit(DATA, **QUICK)
    nothing = csr_array((1, ITEMS))
    decoded = model._network
    with torch.no_grad():
        hidden = decoded._decode(torch.from_numpy(model.embed(nothing)))
        expected = decoded.output.probabilities(hidden).numpy()[0]
    found = model.recommend(nothing, n=ITEMS, draws=0)
    np.testing.assert_allclose(found.scores[0], expected[found.ids[0]], rtol=1e-5)


def test_new_users_of_a_cdae_explore_on_their_own():
    """New users are negative numbers, and each number has its own noise, as every id has."""
    model = recommend.CDAE(hidden=8).fit(DATA, **{**QUICK, "epochs": 10, "learning_rate": 0.02})
    same = csr_array(vstack([DATA[:1]] * 20))
    found = model.recommend(same, n=5, users=-1 - np.arange(20), explore="thompson")
    assert len(np.unique(found.ids, axis=0)) > 1


def test_a_refit_forgets_the_names_of_other_data():
    """The old catalogue stays as long as the number of items is the same: wrong names."""
    model = recommend.EASE(5.0).fit(DATA)
    model.catalogue = recommend.Catalogue(
        recommend.Ids(range(USERS)), recommend.Ids([f"film {k}" for k in range(ITEMS)])
    )
    model.fit(tastes(seed=1))
    assert model.catalogue is None


@pytest.mark.parametrize("ids", [[0, 2**64], [-1, 2**64 - 1]], ids=["modulo", "negative"])
def test_different_users_have_different_noise(fitted, ids):
    """Ids of 128 bits (UUIDs) are cut to 64; integers out of range should be hashed or refused."""
    same = csr_array(vstack([SOME[:1], SOME[:1]]))
    found = fitted.recommend(same, n=10, users=ids, explore="thompson")
    assert not np.array_equal(found.scores[0], found.scores[1])


def test_different_seeds_have_different_noise(fitted):
    """2⁶⁴ is the same seed as 0; `fit` and numpy refuse or use all bits."""
    one, two = (
        fitted.recommend(SOME, explore="thompson", generator=seed).scores for seed in (0, 2**64)
    )
    assert not np.array_equal(one, two)


def test_excluded_positions_must_not_be_held_out(ease):
    """A sparse `exclude` with held-out items is an error, positions lower the recall silently."""
    with pytest.raises(ValueError, match="held_out: expected other items than exclude"):
        recommend.evaluate(ease, *PARTS.test, ["recall@20"], exclude=list(range(10)))


@pytest.mark.parametrize("model", [recommend.EASE(), recommend.Popular()], ids=["EASE", "Popular"])
@pytest.mark.parametrize("shape", [(0, 0), (5, 0), (0, 5), (5, 5)])
def test_nothing_to_fit_is_an_error(model, shape):
    """As it is for VAE, DAE and CDAE: "expected interactions, got shape … without any"."""
    with pytest.raises(ValueError, match="expected interactions"):
        model.fit(csr_array(shape))


@pytest.mark.parametrize("width", [np.nan, np.inf, "2"])
def test_a_width_is_a_finite_number(fitted, width):
    """inf gives scores of inf, and NaN blames the weights: "fit with a lower learning rate"."""
    with pytest.raises((ValueError, TypeError), match="width: expected"):
        fitted.recommend(SOME, explore="upper", width=width)


def test_the_total_of_bounds_is_no_total_of_probabilities(fitted):
    """ "If the model gives probabilities, scores / total are those among the candidates; else NaN."

    With explore="upper" scores are bounds, whose total is 1.3 over all items.
    """
    found = fitted.recommend(SOME, n=ITEMS, exclude_seen=False, explore="upper")
    assert np.isnan(found.total).all() or np.allclose(found.total, 1)


def test_one_string_is_not_a_list_of_users(fitted):
    """ "abcd" is taken for four users. numpy, pandas and scikit-learn refuse a bare string."""
    with pytest.raises((ValueError, TypeError), match="users: expected"):
        fitted.recommend(SOME, users="abcd")


def test_a_least_rating_of_nan_is_an_error():
    """Every row is left out, silently."""
    frame = pd.DataFrame({"user": [1, 2], "item": [3, 4], "stars": [4, 5]})
    with pytest.raises(ValueError, match="at_least: expected"):
        recommend.from_frame(frame, rating="stars", at_least=np.nan)


def test_what_is_saved_can_be_loaded(tmp_path):
    """A setting that is changed after `fit` is saved next to weights of another shape.

    `save` should write the settings of the weights, or refuse: the model is lost otherwise.
    """
    model = vae().fit(DATA, **QUICK)
    model.hidden = 16
    model.save(tmp_path / "model")
    again = recommend.Recommender.load(tmp_path / "model")
    np.testing.assert_array_equal(scores(again), scores(model))


def test_weights_do_not_depend_on_the_default_dtype(fitted):
    """The same seed, and other weights, if somebody has called `torch.set_default_dtype`."""
    torch.set_default_dtype(torch.float64)
    try:
        found = scores(vae().fit(DATA, **QUICK))
    finally:
        torch.set_default_dtype(torch.float32)
    np.testing.assert_allclose(found, scores(fitted), rtol=1e-4)


# --- What should work ---


def test_seeds_may_be_integers_of_numpy(fitted):
    """`for seed in np.arange(5)` fails with "an integer is required". `generator=` takes them."""
    model = vae().fit(DATA, seed=np.int64(0), **QUICK)
    np.testing.assert_array_equal(scores(model), scores(fitted))


def test_recommended_items_have_names(ease):
    """`catalogue.items.ids(found.ids)` is the first thing to try; found.ids is (B, n).

    It is an opaque TypeError. Names in the same shape, None for −1, is what is wanted.
    """
    names = recommend.Ids([f"film {k}" for k in range(ITEMS)])
    found = ease.recommend(SOME, n=3).ids
    assert np.asarray(names.ids(found)).shape == (4, 3)


@pytest.mark.parametrize("ids", [np.arange(ITEMS), np.arange(ITEMS).astype(str)])
def test_ids_from_a_numpy_array_can_be_saved(tmp_path, ids):
    """numpy's integers and strings are integers and strings; the error says that they are not."""
    model = recommend.EASE(5.0).fit(DATA)
    model.catalogue = recommend.Catalogue(recommend.Ids(range(USERS)), recommend.Ids(ids))
    model.save(tmp_path / "model")
    again = recommend.Recommender.load(tmp_path / "model")
    assert again.catalogue == model.catalogue


@pytest.mark.parametrize("make", [lambda k: ("film", k), float, lambda k: b"%d" % k])
def test_ids_that_a_catalogue_takes_can_be_saved(tmp_path, make):
    """Ids are "any hashable", until `save` refuses tuples, floats and bytes, after the training.

    These have a form in JSON. For the rest (dates, UUIDs) an error when the catalogue is set, or a
    word in the docs, is early enough.
    """
    model = recommend.EASE(5.0).fit(DATA)
    names = recommend.Ids([make(k) for k in range(ITEMS)])
    model.catalogue = recommend.Catalogue(recommend.Ids(range(USERS)), names)
    model.save(tmp_path / "model")
    again = recommend.Recommender.load(tmp_path / "model")
    assert again.catalogue == model.catalogue


@pytest.mark.parametrize("ids", [[("a", 1), ("b", 2)], [1.0, 2.0]], ids=["tuples", "floats"])
def test_users_of_a_catalogue_can_be_given_to_recommend(ease, ids):
    """`from_frame` takes these ids, `recommend` refuses them, even of models without noise."""
    found = ease.recommend(SOME[:2], n=1, users=list(recommend.Ids(ids)))
    assert found.to_frame()["user"].tolist() == ids


def test_rows_of_a_cdae_get_their_names():
    """Users are positions of the training, the catalogue knows them, and the frame has numbers."""
    model = recommend.CDAE(hidden=8).fit(DATA, **QUICK)
    model.catalogue = recommend.Catalogue(
        recommend.Ids([f"user {k}" for k in range(USERS)]), recommend.Ids(range(ITEMS))
    )
    frame = model.recommend(SOME, n=1, users=[0, 1, 2, 3]).to_frame()
    assert frame["user"].tolist() == ["user 0", "user 1", "user 2", "user 3"]


def test_evaluation_of_an_empty_choice_does_not_divide_by_zero(fitted):
    """A RuntimeWarning of numpy escapes from printing."""
    none_hit = csr_array((1, ITEMS))
    wanted = csr_array(np.eye(1, ITEMS))
    everything_else = csr_array(1 - np.eye(1, ITEMS))
    str(recommend.evaluate(fitted, none_hit, wanted, ["recall@5"], exclude=everything_else))


def test_a_model_says_what_it_is():
    """`<dubio.recommend.vae.VAE object at 0x…>`; scikit-learn, torch and masks show settings."""
    assert "weight_decay=5.0" in repr(recommend.EASE(5.0))


# --- Errors that do not say what to do ---


def frame_of(**columns):
    return recommend.from_frame(columns)


def altered(model, folder):
    """A file with one altered bit in its header."""
    model.save(folder / "model")
    content = (folder / "model").read_bytes()
    (folder / "model").write_bytes(content.replace(b"settings", b"settingr", 1))
    return recommend.Recommender.load(folder / "model")


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
    """ "expected X, got Y; do Z" is the house style; these are errors of numpy, torch or Python."""
    model = recommend.EASE(5.0).fit(DATA)
    with pytest.raises((TypeError, ValueError), match=r"expected .*got"):
        call(model)


def test_draws_of_a_model_are_checked(fitted):
    """`model.draws = -1` is an IndexError "too many indices for tensor of dimension 1"."""
    model = vae().fit(DATA, **QUICK)
    model.draws = -1
    with pytest.raises(ValueError, match="draws: expected"):
        model.recommend(SOME)


def test_one_metric_as_a_string_is_named_in_the_error(ease):
    """ "got 'r'": take it for one metric, or say that a list is expected."""
    found = recommend.evaluate(ease, *PARTS.test, "recall@5")
    assert list(found.scores) == ["recall@5"]


def test_an_altered_header_is_a_damaged_file(tmp_path, ease):
    """A bare KeyError: 'settings'. Other damage is "expected a whole safetensors file"."""
    with pytest.raises(ValueError, match="expected"):
        altered(ease, tmp_path)


def test_a_cdae_that_is_not_fitted_says_so():
    """It asks for users first, of a training that has not been."""
    with pytest.raises(RuntimeError, match="expected a fitted model"):
        recommend.CDAE().recommend(SOME)


def test_interactions_are_told_what_to_pass():
    """`fit(from_frame(frame))` is told to make a csr_array of it, which fails as well."""
    with pytest.raises(TypeError, match=r"\.user_items"):
        recommend.EASE().fit(recommend.from_frame({"user": [1], "item": [2]}))


def test_a_negative_number_of_users_is_named():
    """ "expected together fewer than the 14 users, got -1 and 5; hold out fewer"."""
    with pytest.raises(ValueError, match="0 or more"):
        recommend.by_users(DATA, -1, 5)
