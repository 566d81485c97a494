"""VAE, DAE and CDAE as their users see them."""

from functools import partial

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array, hstack

from dubio import masks, recommend
from dubio.recommend import DAE, VAE
from dubio.recommend.keyed_noise import draw_seeds, user_keys
from dubio.recommend.sparse import SparseRows
from taste_groups import ITEMS, taste_groups

DATA = taste_groups()
QUICK = {"epochs": 12, "batch_size": 50, "progress": False, "learning_rate": 5e-3}

MODELS = {
    "mult-vae": partial(VAE, 24, 6, anneal=100),
    "no-mask": partial(VAE, 24, 6, mask=None, anneal=100),
    "sivae-lbd": partial(VAE, 24, 6, masks.LearnableBernoulli, mixture=3, anneal=100),
    "sivae-arm": partial(VAE, 24, 6, masks.LearnableBernoulli, mixture=2, estimator="arm"),
    "sivae-once": partial(
        VAE, 24, 6, masks.LearnableBernoulli, mixture=2, decodings=2, estimator="trapezoid_once"
    ),
    "sivae-concrete": partial(VAE, 24, 6, masks.Concrete, drop=0.3, mixture=2),
    "sivae-gaussian": partial(VAE, 24, 6, masks.LearnableGaussian, mixture=2),
    "vamp": partial(VAE, 24, 6, prior="vamp", pseudo_inputs=7),
    "iaf": partial(VAE, 24, 6, posterior="iaf", mixture=2),
    "dae": partial(DAE, 24),
    "dae-lbd": partial(DAE, 24, masks.LearnableBernoulli),
}


@pytest.fixture(scope="module", params=list(MODELS))
def fitted(request):
    return MODELS[request.param]().fit(DATA.train, (DATA.fold_in, DATA.held_out), **QUICK)


def test_it_learns_tastes(fitted):
    found = recommend.evaluate(fitted, DATA.fold_in, DATA.held_out, ["ndcg@20"])
    popular = recommend.Popular().fit(DATA.train)
    floor = recommend.evaluate(popular, DATA.fold_in, DATA.held_out, ["ndcg@20"])
    assert found["ndcg@20"] > floor["ndcg@20"] + 0.1


def test_scores_are_averaged_probabilities(fitted):
    """One pass for each draw by hand, with the noise of its seeds."""
    found = fitted.recommend(DATA.fold_in, ITEMS, draws=4, exclude_seen=False, generator=3)
    rows = SparseRows.of(DATA.fold_in)
    keys = user_keys(np.arange(len(rows)))
    draws = []
    for draw in range(4):
        noise = fitted._network.noise_of_draw(rows, draw_seeds(3, keys, draw))
        draws.append(fitted._network.scores(rows, noise).numpy())
    for statistic, ours in (
        (np.mean(draws, 0), found.scores),
        (np.std(draws, 0, ddof=1), found.spread),
    ):
        np.testing.assert_allclose(
            np.take_along_axis(statistic, found.ids, 1), ours, rtol=1e-4, atol=1e-7
        )
    np.testing.assert_allclose(found.scores.sum(1), 1, rtol=1e-5)


def test_one_draw_is_that_draw(fitted):
    one = fitted.recommend(DATA.fold_in, 5, draws=1, generator=3)
    thompson = fitted.recommend(DATA.fold_in, 5, explore="thompson", generator=3)
    np.testing.assert_array_equal(one.ids, thompson.ids)
    if fitted.stochastic:
        assert (one.ids != fitted.recommend(DATA.fold_in, 5, draws=1, generator=4).ids).any()


def test_users_have_their_noise_in_any_batch(fitted):
    """Any order, any part of the users: the same noise. Sums may differ in the last bits."""
    order = np.random.default_rng(0).permutation(DATA.fold_in.shape[0])
    whole = fitted.recommend(DATA.fold_in, 5, draws=2, users=np.arange(len(order)))
    mixed = fitted.recommend(DATA.fold_in[order], 5, draws=2, users=order)
    np.testing.assert_allclose(whole.scores[order], mixed.scores, rtol=1e-4)
    np.testing.assert_allclose(whole.spread[order], mixed.spread, rtol=1e-3, atol=1e-6)
    alone = fitted.recommend(DATA.fold_in[[7]], 5, draws=2, users=[7])
    np.testing.assert_allclose(alone.scores[0], whole.scores[7], rtol=1e-4)


def test_an_empty_history_gets_what_the_prior_says(fitted):
    assert DATA.fold_in[[0]].nnz == 0
    for draws in (0, 3):
        found = fitted.recommend(DATA.fold_in[[0]], 5, draws=draws)
        assert np.isfinite(found.scores).all()
    if isinstance(fitted, VAE) and fitted.prior == "normal":
        network = fitted._network
        expected = network.output(torch.tanh(network.decoder(torch.zeros(1, 6)))).softmax(1)
        found = fitted.recommend(DATA.fold_in[[0]], ITEMS, draws=0)
        np.testing.assert_allclose(
            found.scores[0], expected.detach().numpy()[0][found.ids[0]], rtol=1e-5
        )


def test_an_item_that_nobody_had_has_no_part_in_the_encoding(fitted):
    if isinstance(fitted, VAE) and fitted.prior == "vamp":
        pytest.skip("pseudo-inputs have all items")
    first = fitted._network.input.weight.detach()[0]
    network = fitted._build(ITEMS, DATA.train.shape[0])
    recommend.autoencoder.initialise(network, torch.Generator().manual_seed(0))
    if not fitted.weight_decay:
        torch.testing.assert_close(first, network.input.weight.detach()[0], rtol=0, atol=0)
    mask = fitted._network.input.mask
    if isinstance(mask, masks.LearnableBernoulli | masks.Concrete):
        start = network.input.mask.logit.detach()
        moved = mask.logit.detach() != start
        assert not moved[0]
        assert moved[1:].all()


def test_files(fitted, tmp_path):
    fitted.save(tmp_path / "model.safetensors")
    again = recommend.Recommender.load(tmp_path / "model.safetensors")
    assert type(again) is type(fitted)
    one, two = (model.recommend(DATA.fold_in, 5, draws=2) for model in (fitted, again))
    np.testing.assert_array_equal(one.ids, two.ids)
    np.testing.assert_array_equal(one.scores, two.scores)
    np.testing.assert_array_equal(fitted.keep, again.keep)
    np.testing.assert_array_equal(fitted.embed(DATA.fold_in), again.embed(DATA.fold_in))


def test_the_global_generator_stays():
    before = torch.get_rng_state(), np.random.get_state()[1].copy()
    model = VAE(8, 3, masks.LearnableBernoulli, posterior="iaf").fit(
        DATA.train, epochs=1, progress=False
    )
    model.recommend(DATA.fold_in)
    assert torch.equal(torch.get_rng_state(), before[0])
    np.testing.assert_array_equal(np.random.get_state()[1], before[1])


def test_rates_are_learned_by_item():
    model = VAE(24, 6, masks.LearnableBernoulli, anneal=0, beta=0.05).fit(
        DATA.train, rate_learning_rate=0.05, **QUICK
    )
    assert model.keep.shape == (ITEMS,)
    assert model.keep[0] == pytest.approx(0.5)
    assert model.keep[1:].std() > 0.01


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"mixture": 0}, "mixture"),
        ({"latent": 2.5}, "latent"),
        ({"prior": "gamma"}, "prior"),
        ({"posterior": "normal"}, "posterior"),
        ({"estimator": "reinforce"}, "estimator"),
        ({"decodings": 2}, "at most mixture"),
        ({"mask": None, "mixture": 2}, "without a mask"),
        ({"prior": "vamp", "posterior": "iaf"}, "part of the decoder"),
    ],
)
def test_settings_that_make_no_sense(options, says):
    with pytest.raises(ValueError, match=says):
        VAE(**options)


def test_masks_that_make_no_sense(tmp_path):
    with pytest.raises(TypeError, match=r"give masks\.Bernoulli"):
        VAE(mask=masks.Bernoulli()).fit(DATA.train)
    with pytest.raises(TypeError, match="expected a class of"):
        VAE(mask=lambda items, drop: torch.nn.Dropout(drop)).fit(DATA.train)
    model = VAE(8, 2, mask=lambda items, drop: masks.Bernoulli(items, drop=drop))
    model.fit(DATA.train, epochs=1, progress=False)
    with pytest.raises(TypeError, match="holds no code"):
        model.save(tmp_path / "model")


def test_a_matrix_the_wrong_way_round():
    model = VAE(8, 2).fit(DATA.train, epochs=1, progress=False)
    with pytest.raises(ValueError, match="expected users × items with 40 columns"):
        model.recommend(DATA.train.T)
    with pytest.raises(ValueError, match="without any"):
        VAE(8, 2).fit(csr_array((5, 4)))
    wider = hstack([DATA.fold_in, DATA.fold_in]).tocsr()
    with pytest.raises(ValueError, match="40 columns"):
        model.recommend(wider)


@pytest.mark.parametrize("options", [{}, {"prior": "vamp"}, {"posterior": "iaf"}], ids=str)
def test_scores_without_noise_are_decoded_embeddings(options):
    """Also of an empty history, which is at the mean of the prior."""
    model = VAE(16, 4, anneal=10, pseudo_inputs=5, **options)
    model.fit(DATA.train, **{**QUICK, "epochs": 2})
    shown = DATA.fold_in[:3]
    assert np.diff(shown.indptr)[0] == 0
    network = model._network
    with torch.no_grad():
        hidden = network._decode(torch.from_numpy(model.embed(shown)))
        expected = network.output.probabilities(hidden).numpy()
    found = model.score(shown, range(ITEMS), draws=0)
    np.testing.assert_allclose(found.scores, expected, rtol=1e-5)
    if not options:
        assert not model.embed(shown)[0].any()
