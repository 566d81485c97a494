"""Noise as a value: it can be compared, cut, entered, and played again."""

import pytest
import torch
from torch import Tensor, nn

import dubio
from networks import build
from references import seeded


def outputs(network: nn.Module, x: Tensor, noise: dubio.Noise) -> Tensor:
    with noise:
        y: Tensor = network(x)
    return y


def test_a_draw_can_be_played_again_in_either_mode() -> None:
    network, x = build("mlp")
    noise = dubio.Noise(generator=seeded())
    played = [outputs(network.train(mode), x, noise) for mode in (False, True, False)]
    assert torch.equal(played[0], played[1])
    assert torch.equal(played[0], played[2])
    assert not torch.equal(played[0], network.eval()(x))


def test_parts_are_parts_of_the_whole() -> None:
    noise = dubio.Noise(10, generator=seeded())
    part = noise[2:5]
    assert (part.draws, len(part), part.shared) == (3, 3, False)
    assert part[0] == noise[2] == noise[2:3]
    assert part[-1] == noise[4] == noise[-6]
    assert part[1:] == noise[3:5]
    assert noise[:] == noise
    network, x = build("mlp")
    assert torch.equal(outputs(network, x, part[1]), outputs(network, x, noise[3]))


def test_noise_is_equal_if_seed_draws_and_sharing_are() -> None:
    noise = dubio.Noise(3, generator=seeded())
    same = dubio.Noise(3, generator=seeded())
    assert noise == same
    assert hash(noise) == hash(same)
    assert {noise, same, noise[:3]} == {noise}
    others = [
        dubio.Noise(3, generator=seeded(1)),
        dubio.Noise(4, generator=seeded()),
        dubio.Noise(3, shared=True, generator=seeded()),
        noise[1:],
        noise[0],
    ]
    assert noise not in others
    assert noise != "noise"


def test_the_generator_moves_on() -> None:
    generator = seeded()
    assert dubio.Noise(generator=generator) != dubio.Noise(generator=generator)


@pytest.mark.parametrize("index", [3, -4, slice(2, 2), slice(None, None, 2), slice(None, None, -1)])
def test_only_consecutive_draws_that_exist_can_be_cut_out(index: int | slice) -> None:
    with pytest.raises(IndexError):
        dubio.Noise(3)[index]


def test_a_context_holds_one_draw() -> None:
    noise = dubio.Noise(3)
    with (
        pytest.raises(ValueError, match=r"one draw, got a Noise with 3.*noise\[k\].*predict"),
        noise,
    ):
        pass
    with noise[0]:
        pass


@pytest.mark.parametrize("draws", [0, -1, 1.5, True, None, "3"])
def test_draws_are_a_positive_int(draws: object) -> None:
    with pytest.raises(ValueError, match="draws: expected a positive int"):
        dubio.Noise(draws)  # type: ignore[arg-type]


def test_the_context_ends_with_an_exception() -> None:
    network, x = build("mlp")
    with pytest.raises(ZeroDivisionError), dubio.Noise():
        1 / 0  # noqa: B018
    assert torch.equal(network(x), network(x))


@pytest.mark.parametrize("outer_shared", [False, True])
def test_the_inner_noise_counts_and_the_outer_one_goes_on(outer_shared: bool) -> None:
    network, x = build("called twice")
    inner = dubio.Noise(generator=seeded(1))
    outer = dubio.Noise(shared=outer_shared, generator=seeded(2))
    with outer:
        expected = [network(x), network(x)]
    with outer:
        first = network(x)
        within = outputs(network, x, inner)
        second = network(x)
    assert torch.equal(within, outputs(network, x, inner))
    assert torch.equal(first, expected[0])
    assert torch.equal(second, expected[1])


@pytest.mark.parametrize("outer_shared", [False, True])
def test_predict_has_its_own_noise_inside_a_context(outer_shared: bool) -> None:
    network, x = build("mlp")
    expected = dubio.predict(network, x, draws=3, generator=seeded(1)).draws
    with dubio.Noise(shared=outer_shared, generator=seeded(2)):
        assert torch.equal(dubio.predict(network, x, draws=3, generator=seeded(1)).draws, expected)


@pytest.mark.parametrize("dropout", [nn.Dropout(0.5), nn.AlphaDropout(0.5), nn.Dropout1d(0.5)])
def test_gradients_flow_through_the_noise(dropout: nn.Module) -> None:
    x = torch.randn(3, 4, 5, generator=seeded(), requires_grad=True)
    noise = dubio.Noise(generator=seeded())
    (gradient,) = torch.autograd.grad(outputs(dropout, x, noise).sum(), x)
    ones, zeros = torch.ones_like(x), torch.zeros_like(x)
    slope = outputs(dropout, ones, noise) - outputs(dropout, zeros, noise)
    assert (slope == 0).any()
    assert (slope > 0).any()
    torch.testing.assert_close(gradient, slope)


def test_it_says_what_it_is() -> None:
    noise = dubio.Noise(3, shared=True, generator=seeded())
    assert repr(noise).startswith("Noise(draws 0 to 2, shared=True, seed=")
    assert repr(noise[1]).startswith("Noise(draw 1, shared=True, seed=")


@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize("draws", [1, 3])
def test_threads_share_the_work_and_the_numbers_stay_the_same(threads: int, draws: int) -> None:
    numbers = dubio.Noise(draws, generator=torch.Generator().manual_seed(0)).numbers
    shape, like = torch.Size([300_001]), torch.empty(())
    alone = numbers.normal((0, 0), shape, like)
    try:
        torch.set_num_threads(threads)
        with torch.inference_mode():
            together = numbers.normal((0, 0), shape, like)
    finally:
        torch.set_num_threads(1)
    assert torch.equal(alone, together)
    blocks = alone[0, : 2 * 2**17].view(2, -1)
    assert abs(float(torch.corrcoef(blocks)[0, 1])) < 6 / 2**8.5  # six standard errors: 1e-9
