"""The noise of a draw depends on seed, site and draw alone: not on who computes it, nor how."""

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import dubio
from networks import CASES, build
from references import passes, seeded

ROWS = 7  # differs from every other length in the zoo, and divides none
SHAREABLE = [name for name, case in CASES.items() if case.shareable]
WAYS = [(name, False) for name in CASES] + [(name, True) for name in SHAREABLE]
CHUNKS = [1, 4, 100, None]
MASKS = [
    nn.Dropout(0.3),
    nn.Dropout(0.5),
    nn.Dropout(0.97),
    nn.Dropout1d(0.3),
    nn.Dropout2d(0.3),
    nn.AlphaDropout(0.3),
    nn.FeatureAlphaDropout(0.3),
]


def draw(
    name: str, network: nn.Module, x: Tensor, draws: int, *, shared: bool, chunk: int | None = None
) -> Tensor:
    """The draws of a network of the zoo from a fixed seed."""
    options = {"draws": draws, "shared": shared, "chunk": chunk, "select": CASES[name].select}
    return dubio.predict(network, x, generator=seeded(3), **options).draws  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "shared"), WAYS)
def test_predict_gives_what_the_network_gives_under_the_noise(name: str, shared: bool) -> None:
    network, x = build(name, ROWS)
    noise = dubio.Noise(5, shared=shared, generator=seeded(3))
    draws = draw(name, network, x.clone(), 5, shared=shared)
    assert len(torch.unique(draws, dim=0)) > 1
    torch.testing.assert_close(draws, passes(network, x, noise, CASES[name].select))


@pytest.mark.parametrize(("name", "shared"), WAYS)
def test_chunks_do_not_matter(name: str, shared: bool) -> None:
    network, x = build(name, ROWS)
    by_one, by_four, at_once, by_budget = (
        draw(name, network, x.clone(), 9, shared=shared, chunk=chunk) for chunk in CHUNKS
    )
    torch.testing.assert_close(by_one, at_once)
    torch.testing.assert_close(by_four, at_once)
    torch.testing.assert_close(by_budget, at_once)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("dropout", MASKS, ids=str)
@pytest.mark.parametrize("width", [10, 500], ids=["few", "many"])
def test_masks_are_the_same_bits_for_every_chunk(
    dropout: nn.Module, width: int, dtype: torch.dtype, shared: bool
) -> None:
    ones = torch.ones(3, 4, width, dtype=dtype)
    masks = [
        dubio.predict(dropout, ones, draws=9, shared=shared, chunk=chunk, generator=seeded(3)).draws
        for chunk in CHUNKS
    ]
    assert len(masks[0].unique()) == 2
    assert all(torch.equal(mask, masks[0]) for mask in masks)


@pytest.mark.parametrize("name", SHAREABLE)
def test_shared_draws_are_the_same_function_on_batches_of_any_size(name: str) -> None:
    """Also where the batch is as long as a sequence or as wide as a layer."""
    network, x = build(name, 23)
    functions = draw(name, network, x.clone(), 3, shared=True)
    for rows in (1, 3, 5, 6, 8, 20):
        part = draw(name, network, x[:rows].clone(), 3, shared=True)
        torch.testing.assert_close(part, functions[:, :rows], msg=lambda m: f"{rows} rows: {m}")  # noqa: B023


@pytest.mark.parametrize("name", SHAREABLE)
def test_shared_draws_are_the_same_function_however_rows_are_batched(name: str) -> None:
    network, x = build(name, 11)
    functions = draw(name, network, x.clone(), 3, shared=True)
    for batch_size in (3, 11):
        batches = DataLoader(TensorDataset(x.clone()), batch_size=batch_size)
        options = {"draws": 3, "shared": True, "select": CASES[name].select}
        batched = dubio.predict(network, batches, generator=seeded(3), **options)  # type: ignore[arg-type]
        torch.testing.assert_close(batched.draws, functions)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.rowwise])
def test_equal_rows_share_noise_only_if_told_to(name: str) -> None:
    network, x = build(name)
    same = x[:1].expand_as(x).clone()
    apart = draw(name, network, same.clone(), 3, shared=False)
    assert not torch.equal(apart, apart[:, :1].expand_as(apart))
    if CASES[name].shareable:
        together = draw(name, network, same.clone(), 3, shared=True)
        torch.testing.assert_close(together, together[:, :1].expand_as(together))


@pytest.mark.parametrize(("name", "shared"), WAYS)
def test_a_seed_gives_the_same_draws_twice_and_another_seed_others(name: str, shared: bool) -> None:
    network, x = build(name)
    case = CASES[name]
    first, again, other = (
        dubio.predict(
            network, x.clone(), draws=5, shared=shared, generator=seeded(seed), select=case.select
        ).draws
        for seed in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_draws_do_not_depend_on_how_many_are_asked_for() -> None:
    network, x = build("mlp")
    few, many = (draw("mlp", network, x, draws, shared=False) for draws in (3, 30))
    torch.testing.assert_close(few, many[:3])


def test_batches_of_a_loader_have_noise_of_their_own() -> None:
    ones = DataLoader(TensorDataset(torch.ones(8, 30)), batch_size=4)
    masks = dubio.predict(nn.Dropout(0.5), ones, draws=2, generator=seeded()).draws
    assert not torch.equal(masks[:, :4], masks[:, 4:])


def test_sites_have_noise_of_their_own() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.drop = nn.Dropout(0.5)

        def forward(self, x: Tensor) -> Tensor:
            return torch.stack([self.drop(x), self.drop(x)], dim=1)

    masks = dubio.predict(Twice(), torch.ones(2, 30), draws=3, generator=seeded()).draws
    assert not any(torch.equal(one[:, 0], one[:, 1]) for one in masks)


def test_the_global_generator_is_the_seed_where_none_is_given() -> None:
    network, x = build("mlp")
    torch.manual_seed(5)
    first, second = (dubio.predict(network, x, draws=3).draws for _ in range(2))
    torch.manual_seed(5)
    again = dubio.predict(network, x, draws=3).draws
    assert torch.equal(first, again)
    assert not torch.equal(first, second)
