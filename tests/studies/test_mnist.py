"""Digits as bytes, and networks that are trained once for several studies."""

from pathlib import Path

import pytest
import torch
from torch import nn

import dubio
from dubio.masks import Concrete
from dubio_studies.framework.recipe import digest
from dubio_studies.mnist.images import AVAILABLE, CLASSES, PIXELS, Digits, Scaled, load
from dubio_studies.mnist.training import REVISION, DigitTraining, trained


@pytest.fixture(scope="module")
def digits() -> Digits:
    return load("digits", 200, 100, seed=0)


def _objective() -> dubio.ELBO:
    network = nn.Sequential(Scaled(), nn.Flatten(), nn.Linear(PIXELS, CLASSES))
    return dubio.ELBO(network, dubio.likelihoods.Categorical(), num_data=200)


def test_digits_are_bytes_with_their_labels(digits: Digits) -> None:
    assert digits.train.dtype == torch.uint8
    assert digits.train.shape == (200, 28, 28)
    assert digits.test.shape == (100, 28, 28)
    assert digits.test_labels.shape == (100,)
    assert digits.train.max() > 200


def test_fewer_digits_are_some_of_the_more(digits: Digits) -> None:
    fewer = load("digits", 50, 100, seed=0)
    assert torch.equal(fewer.train, digits.train[:50])
    assert not torch.equal(load("digits", 50, 100, seed=1).train, fewer.train)


def test_bytes_become_numbers() -> None:
    images = torch.tensor([[0, 255]], dtype=torch.uint8)
    torch.testing.assert_close(Scaled()(images), torch.tensor([[0.0, 255 / 126]]))
    assert images.tolist() == [[0, 255]]


def test_pixels_that_are_no_bytes_have_a_gradient_and_stay() -> None:
    pixels = torch.tensor([0.0, 100.5, 255.0], dtype=torch.float64, requires_grad=True)
    scaled = Scaled()(pixels)
    scaled.sum().backward()
    torch.testing.assert_close(scaled, pixels.detach() / 126)
    torch.testing.assert_close(pixels.grad, torch.full_like(pixels, 1 / 126))
    images = torch.tensor([126.0])
    assert Scaled()(images) == 1
    assert images == 126


def test_a_network_is_trained_once(digits: Digits, tmp_path: Path) -> None:
    made = []

    def make() -> dubio.ELBO:
        made.append(_objective())
        made[-1].register_forward_hook(lambda *_: calls.append(1))
        return made[-1]

    calls: list[int] = []
    first = trained(
        make, {"kind": "linear", "seed": 0}, digits, DigitTraining(epochs=2, batch_size=50)
    )
    assert len(calls) == 2 * 4
    again = trained(
        make, {"kind": "linear", "seed": 0}, digits, DigitTraining(epochs=2, batch_size=50)
    )
    assert len(calls) == 2 * 4  # from the cache
    x = digits.test
    assert torch.equal(first.network(x), again.network(x))
    assert first.history == again.history
    assert len(first.history) == 2
    other = trained(
        make, {"kind": "linear", "seed": 1}, digits, DigitTraining(epochs=2, batch_size=50)
    )
    assert len(calls) == 4 * 4
    assert not torch.equal(first.network(x), other.network(x))
    share = (first.network(x).argmax(-1) != digits.test_labels).float().mean()
    assert first.history[-1].validation == pytest.approx(float(share))
    assert len(list((tmp_path / "cache" / "networks").iterdir())) == 2


def test_dropout_rates_may_learn_at_a_pace_of_their_own(digits: Digits) -> None:
    def make() -> dubio.ELBO:
        layer = dubio.Masked(nn.Linear(PIXELS, CLASSES), Concrete(drop=0.5))
        network = nn.Sequential(Scaled(), nn.Flatten(), layer)
        return dubio.ELBO(network, dubio.likelihoods.Categorical(), num_data=200)

    moved = {}
    for pace in (None, 0.2):
        training = DigitTraining(epochs=1, batch_size=200, noise_learning_rate=pace)
        network = trained(make, {"kind": "masked"}, digits, training).network
        (mask,) = (module for module in network.modules() if isinstance(module, Concrete))
        moved[pace] = abs(float(mask.logit.detach()))
    # Adam's first step is as long as the learning rate
    assert moved == {None: pytest.approx(1e-3, rel=1e-3), 0.2: pytest.approx(0.2, rel=1e-3)}


def test_numbers_of_images_are_those_of_scikit_learn() -> None:
    digits = load("digits", 10**9, 10**9, seed=0)
    assert (len(digits.train), len(digits.test)) == AVAILABLE["digits"]


def test_names_of_settings_are_part_of_the_key(digits: Digits, tmp_path: Path) -> None:
    """Another name would give networks other seeds: raise REVISION if one has to change."""
    training = DigitTraining(epochs=1, batch_size=200, noise_learning_rate=0.1)
    trained(_objective, {"kind": "linear"}, digits, training)
    settings = {
        "epochs": 1, "batch_size": 200, "learning_rate": 1e-3, "noise_learning_rate": 0.1,
    }  # fmt: skip
    key = digest([REVISION, {"kind": "linear"}, settings, torch.__version__])
    assert (tmp_path / "cache" / "networks" / f"{key[:16]}.pt").exists()


def test_a_damaged_network_is_set_aside_and_made_anew(digits: Digits, tmp_path: Path) -> None:
    training = DigitTraining(epochs=1, batch_size=200)
    first = trained(_objective, {"kind": "linear"}, digits, training).network
    (file,) = (tmp_path / "cache" / "networks").iterdir()
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])
    with pytest.warns(UserWarning, match="could not be read: it is .*damaged now"):
        again = trained(_objective, {"kind": "linear"}, digits, training).network
    assert torch.equal(first(digits.test), again(digits.test))
    assert file.with_suffix(".damaged").read_bytes() == content[: len(content) // 2]
    trained(_objective, {"kind": "linear"}, digits, training)  # no warning: it is whole


def test_a_pace_that_is_not_given_changes_no_key(digits: Digits, tmp_path: Path) -> None:
    training, identity = DigitTraining(epochs=1, batch_size=200), {"kind": "linear"}
    trained(_objective, identity, digits, training)
    settings = {"epochs": 1, "batch_size": 200, "learning_rate": 1e-3}
    key = digest([REVISION, identity, settings, torch.__version__])
    assert (tmp_path / "cache" / "networks" / f"{key[:16]}.pt").exists()
