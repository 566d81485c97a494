"""Labels that do not count: the same numbers as without their rows or pixels."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import dubio
from dubio import decide, masks, metrics
from dubio.calibrate import LeastAmbiguousSets, TemperatureScaling
from dubio.likelihoods import Categorical
from dubio.predictive.predictive import Predictive, StoredDraws

VOIDS = pytest.mark.parametrize("void", [-100, 4, 11])  # classes are 0 to 3


def rows(void: int, count: int = 40) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Inputs, labels of which some are void, and where they are not."""
    source = torch.Generator().manual_seed(3)
    x = torch.randn(count, 5, generator=source)
    y = torch.randint(4, (count,), generator=source)
    known = torch.rand(count, generator=source) < 0.6
    return x, y.where(known, void), known


def maps(void: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits of three draws and labels of four images, the last without any."""
    source = torch.Generator().manual_seed(5)
    logits = torch.randn(3, 4, 4, 2, 3, generator=source, dtype=torch.float64)
    y = torch.randint(4, (4, 2, 3), generator=source)
    y[torch.rand(4, 2, 3, generator=source) < 0.4] = void
    y[3] = void
    return logits, y


@VOIDS
def test_log_prob_of_maps_sums_what_counts(void: int) -> None:
    logits, y = maps(void)
    found = Categorical(dim=1, void=void).log_prob(logits, y)
    expected = torch.stack(
        [
            -F.cross_entropy(draw, y, ignore_index=void, reduction="none").sum((1, 2))
            for draw in logits
        ]
    )
    torch.testing.assert_close(found, expected)
    assert (found[:, 3] == 0).all()


@VOIDS
@pytest.mark.parametrize("outputs", ["logits", "probabilities"])
def test_losses_of_rows(void: int, outputs: str) -> None:
    x, y, known = rows(void)
    logits = x[:, :4].requires_grad_()
    given = logits if outputs == "logits" else logits.softmax(-1)
    losses = Categorical(outputs=outputs, void=void).losses(given, y)  # type: ignore[arg-type]
    torch.testing.assert_close(
        losses[known], F.cross_entropy(logits[known], y[known], reduction="none")
    )
    assert (losses[~known] == 0).all()
    (gradient,) = torch.autograd.grad(losses.sum(), logits)
    assert (gradient[~known] == 0).all()
    assert gradient.isfinite().all()


@VOIDS
@pytest.mark.parametrize("mask", ["bernoulli", "concrete", "learnable"])
def test_the_elbo_is_that_of_the_rows_that_count(void: int, mask: str) -> None:
    """Rows share their masks, so that those which count have the same ones with and without."""
    x, y, known = rows(void)
    torch.manual_seed(0)
    made = {"bernoulli": masks.Bernoulli, "concrete": masks.Concrete}.get(
        mask, masks.LearnableBernoulli
    )
    net = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), dubio.Masked(nn.Linear(8, 4), made(drop=0.3)))
    found = []
    for inputs, labels in ((x, y), (x[known], y[known])):
        elbo = dubio.ELBO(
            net, Categorical(void=void), num_data=int(known.sum()), shared=True,
            generator=torch.Generator().manual_seed(7),
        )  # fmt: skip
        loss = elbo(inputs, labels)
        parameters = [p for p in net.parameters() if p.requires_grad]
        found.append([loss, elbo.nll, *torch.autograd.grad(loss, parameters)])
    for all_rows, those_that_count in zip(*found, strict=True):
        torch.testing.assert_close(all_rows, those_that_count, rtol=1e-4, atol=1e-6)


def test_the_elbo_of_maps_is_a_mean_over_images_with_labels() -> None:
    logits, y = maps(11)
    net = nn.Conv2d(4, 4, 1).double()
    elbo = dubio.ELBO(net, Categorical(dim=1, void=11), num_data=3)
    expected = F.cross_entropy(net(logits[0]), y, ignore_index=11, reduction="sum") / 3
    torch.testing.assert_close(elbo(logits[0], y), expected)


def test_a_batch_without_labels_has_a_loss_of_zero() -> None:
    net = nn.Linear(5, 4)
    loss = dubio.ELBO(net, Categorical(void=-100), num_data=3)(
        torch.randn(6, 5), torch.full((6,), -100)
    )
    loss.backward()
    assert loss == 0
    assert (net.weight.grad == 0).all()


@VOIDS
def test_calibration_leaves_them_out(void: int) -> None:
    source = torch.Generator().manual_seed(1)
    logits = 3 * torch.randn(2, 60, 4, generator=source, dtype=torch.float64)
    y = torch.distributions.Categorical(logits=logits.mean(0) / 2)
    torch.manual_seed(0)
    labels = y.sample()
    known = torch.arange(60) % 3 > 0
    p = Predictive(Categorical(void=void), StoredDraws(logits))
    part = Predictive(Categorical(), StoredDraws(logits[:, known]))
    for make in (TemperatureScaling, lambda: LeastAmbiguousSets(0.2)):
        found = make().fit(p, labels.where(known, void))
        expected = make().fit(part, labels[known])
        for name, value in expected.named_buffers():
            torch.testing.assert_close(found.get_buffer(name), value, equal_nan=True)
    scaled = TemperatureScaling().fit(p, labels.where(known, void))(p)
    assert scaled.likelihood == Categorical(void=void)
    assert scaled.log_prob(labels.where(known, void))[~known].eq(0).all()


@pytest.mark.parametrize(
    "score", [metrics.nll, metrics.accuracy, metrics.brier, metrics.ece, metrics.ace]
)
def test_metrics_take_the_void_label_from_the_prediction(score: object) -> None:
    x, y, known = rows(-100)
    logits = torch.stack([x[:, :4], x[:, 1:5]])
    p = Predictive(Categorical(void=-100), StoredDraws(logits))
    part = Predictive(Categorical(), StoredDraws(logits[:, known]))
    torch.testing.assert_close(score(p, y), score(part, y[known]))  # type: ignore[operator]


def test_metrics_of_maps_take_it_too() -> None:
    logits, y = maps(11)
    p = Predictive(Categorical(dim=1, void=11), StoredDraws(logits))
    plain = Predictive(Categorical(dim=1), StoredDraws(logits))
    assert metrics.mean_iou(p, y, 4) == metrics.mean_iou(plain, y, 4, void=11)
    assert metrics.pavgpu(p, y, window=1).mean == metrics.pavgpu(plain, y, window=1, void=11).mean


def test_what_is_refused() -> None:
    logits, y = maps(11)
    p = Predictive(Categorical(dim=1), StoredDraws(logits))
    with pytest.raises(ValueError, match=r"labels from 0 to 3, got labels from 0 to 11; .*void="):
        p.log_prob(y)
    with pytest.raises(ValueError, match="void: expected an integer label or None, got 'none'"):
        Categorical(void="none")  # type: ignore[arg-type]
    x, labels, known = rows(-100)
    own = Predictive(Categorical(void=-100), StoredDraws(x[None, :, :4]))
    with pytest.raises(ValueError, match=f"got {int((~known).sum())} that do not count"):
        decide.Deferral("entropy").fit_error_rate(own, labels, 0.9)
    with pytest.raises(ValueError, match="expected labels that count, got none"):
        TemperatureScaling().fit(own, torch.full_like(labels, -100))


@pytest.mark.parametrize("void", [300, -212])  # both are 44 modulo 256
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32])
def test_bytes_are_not_compared_modulo_256(void: int, dtype: torch.dtype) -> None:
    source = torch.Generator().manual_seed(1)
    logits = torch.randn(1, 3, 60, 4, 5, generator=source, dtype=torch.float64)
    y = torch.randint(60, (3, 4, 5), generator=source)
    assert bool((y == 44).any())
    likelihood = Categorical(dim=1, void=void)
    assert torch.equal(likelihood.log_prob(logits, y.to(dtype)), likelihood.log_prob(logits, y))
    p = Predictive(likelihood, StoredDraws(logits))
    for found in (metrics.nll(p, y.to(dtype)), metrics.nll(p.mean, y.to(dtype), void=void)):
        assert found == metrics.nll(p.mean, y)
    loss = dubio.ELBO(nn.Flatten(0, 1), likelihood, num_data=3)(logits, y.to(dtype))
    torch.testing.assert_close(loss, -likelihood.log_prob(logits, y).mean())


def test_bytes_have_labels_below_the_number_of_classes() -> None:
    """Of 1000 classes, which are 232 modulo 256, label 240 is one."""
    p = torch.full((1, 1000), 1e-3)
    assert metrics.nll(p, torch.tensor([240], dtype=torch.uint8)) == pytest.approx(6.907755)


def test_a_void_label_of_numpy() -> None:
    likelihood = Categorical(void=np.int64(11))  # type: ignore[arg-type]
    assert likelihood == Categorical(void=11)
    assert type(likelihood.void) is int


def test_data_without_any_label_are_refused() -> None:
    x = torch.randn(6, 3, 4, 5)
    elbo = dubio.ELBO(nn.Conv2d(3, 4, 1), Categorical(dim=1, void=11), num_data=6)
    with pytest.raises(ValueError, match=r"y: expected labels that count, got none; .*void=11"):
        dubio.fit(elbo, (x, torch.full((6, 4, 5), 11)), epochs=1, progress=False)


def test_maps_in_the_wrong_place_are_told_where_to_go() -> None:
    logits, y = maps(11)
    probabilities = logits[0].softmax(1)
    with pytest.raises(ValueError, match=r"p\.movedim\(1, -1\) if classes are along dimension 1"):
        TemperatureScaling().fit(probabilities, y)
    with pytest.raises(ValueError, match=r"got whole numbers, .*pass prediction\.long\(\)"):
        metrics.mean_iou(2.0 * torch.ones(2, 3, 4), torch.zeros(2, 3, 4).long(), 4)
