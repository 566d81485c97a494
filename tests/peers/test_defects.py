"""Defects seen in other libraries for MC dropout; each would fail one of these tests."""

import copy
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import dubio
from networks import CASES, build, mlp
from references import seeded
from snapshots import snapshot

ROWS = 5
TAPED = [
    (name, shared)
    for name, case in CASES.items()
    for shared in (False, True)
    if case.taped and (case.shareable or not shared)
]


class Counted(nn.Module):
    """Counts its calls with a whole batch; two or three rows may serve to look at shapes."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner, self.calls = inner, 0

    def forward(self, x: Tensor) -> Any:
        self.calls += len(x) >= ROWS
        return self.inner(x)


class TestTorchUncertainty:
    """torch-uncertainty 0.13."""

    @pytest.mark.parametrize("name", ["lstm", "lstm batch first", "bidirectional gru", "rnn"])
    def test_recurrent_dropout(self, name: str) -> None:
        """It raises on an ``nn.LSTM(dropout=)``."""
        network, x = build(name)
        assert (dubio.predict(network, x, draws=20).std > 0).all()

    @pytest.mark.parametrize("name", ["attention", "attention weights", "causal attention"])
    def test_attention_dropout(self, name: str) -> None:
        """Its ``nn.MultiheadAttention`` dropout adds zero variance."""
        network, x = build(name)
        assert (dubio.predict(network, x, draws=20).std > 1e-3).all()

    def test_eval_does_not_turn_sampling_off(self) -> None:
        """A later ``core.eval()`` silently turns MC dropout off."""
        network, x = build("mlp")
        trained = dubio.predict(network.train(), x, draws=5, generator=seeded()).draws
        evaluated = dubio.predict(network.eval(), x, draws=5, generator=seeded()).draws
        assert torch.equal(trained, evaluated)
        with dubio.Noise(generator=seeded()):
            network.eval()
            assert not torch.equal(network(x), network(x))

    @pytest.mark.parametrize("name", ["mlp", "batch norm", "lstm", "transformer", "guarded"])
    def test_the_network_is_not_mutated(self, name: str) -> None:
        """The core model is left mutated: its dropout modules are replaced."""
        network, x = build(name)
        modules, before = list(network.modules()), snapshot(network)
        dubio.predict(network, x, draws=5, generator=seeded())
        assert all(a is b for a, b in zip(modules, network.modules(), strict=True))
        assert snapshot(network) == before
        assert torch.equal(network(x), network(x))

    @pytest.mark.parametrize("shared", [False, True])
    @pytest.mark.parametrize("keep_draws", [False, True])
    def test_the_trunk_runs_once(self, shared: bool, keep_draws: bool) -> None:
        """In "last layer" mode it computes the trunk anew for every sample."""
        trunk, head = Counted(nn.Linear(6, 20)), Counted(nn.Linear(20, 3))
        network = nn.Sequential(trunk, nn.ReLU(), nn.Dropout(0.5), head)
        options = {"draws": 100, "shared": shared, "chunk": 7, "keep_draws": keep_draws}
        dubio.predict(network, torch.randn(ROWS, 6), **options)  # type: ignore[arg-type]
        assert (trunk.calls, head.calls) == (1, 1)

    @pytest.mark.parametrize(("name", "shared"), TAPED)
    def test_the_network_runs_once(self, name: str, shared: bool) -> None:
        """The same for the whole network, wherever its dropout stands."""
        network, x = build(name, ROWS)
        counted = Counted(network)
        dubio.predict(counted, x, draws=30, shared=shared, select=CASES[name].select)
        assert 1 <= counted.calls <= (3 if name == "gated module" else 1)  # gates must be found

    def test_a_trunk_in_a_skip_connection_runs_once(self) -> None:
        """The same where the trunk is read again behind the dropout."""

        class Skip(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.trunk, self.block = Counted(nn.Linear(6, 6)), nn.Linear(6, 6)
                self.drop = nn.Dropout(0.5)

            def forward(self, x: Tensor) -> Tensor:
                h = self.trunk(x)
                return h + self.block(self.drop(h)) + self.drop(h)

        network = Skip()
        assert dubio.predict(network, torch.randn(ROWS, 6), draws=50).std.max() > 0
        assert network.trunk.calls == 1


class TestLightningUQBox:
    """lightning-uq-box 0.2."""

    @pytest.mark.parametrize("training", [False, True])
    @pytest.mark.parametrize("name", ["batch norm", "residual"])
    def test_batch_norm_is_not_trained(self, name: str, training: bool) -> None:
        """MC prediction puts BatchNorm in train mode and rewrites its statistics."""
        network, x = build(name)
        before = snapshot(network.train(training))
        together = dubio.predict(network, x, draws=5, shared=True, generator=seeded()).draws
        alone = dubio.predict(network, x[:1], draws=5, shared=True, generator=seeded()).draws
        assert snapshot(network) == before
        torch.testing.assert_close(together[:, :1], alone)  # rows would meet in the statistics

    def test_the_filter_of_layers_has_an_effect(self) -> None:
        """Its layer-name filter has none."""
        network, x = build("mlp")
        spreads = [
            dubio.predict(network, x, draws=200, where=where, generator=seeded()).std.mean()
            for where in (None, "6", "0")
        ]
        assert spreads[0] > spreads[1] > spreads[2] > 0

    @pytest.mark.parametrize("keep_draws", [False, True])
    @pytest.mark.parametrize("offset", [0.0, 1e4, 1e8])
    def test_the_standard_deviation_is_never_nan(self, offset: float, keep_draws: bool) -> None:
        """Its sqrt(E[x²] − E[x]²) is NaN for 346 rows of 1000."""
        torch.manual_seed(0)
        network = nn.Sequential(nn.Dropout(0.1), nn.Linear(6, 1))
        nn.init.constant_(network[1].bias, offset)
        x = torch.randn(1000, 6)
        std = dubio.predict(network, x, draws=10, generator=seeded(), keep_draws=keep_draws).std
        assert std.isfinite().all()
        assert (std >= 0).all()
        if offset < 1e8:
            nn.init.zeros_(network[1].bias)
            expected = dubio.predict(network.double(), x.double(), draws=10, generator=seeded()).std
            torch.testing.assert_close(std.double(), expected, rtol=1e-4, atol=offset * 2e-7 + 1e-6)

    def test_draws_that_agree_have_no_spread(self) -> None:
        """The same where all draws are equal."""
        x = torch.full((50, 3), 1 / 3) * torch.logspace(-8, 8, 50)[:, None]
        network = nn.Sequential(nn.Dropout(1e-12), nn.Identity())
        assert torch.equal(dubio.predict(network, x, draws=30).std, torch.zeros(50, 3))


class TestBaal:
    """baal 2.1."""

    def test_consistent_masks_do_not_depend_on_the_batch_size(self) -> None:
        """Its consistent masks change with the batch size and are never reset."""
        network, x = build("mlp", 32)
        functions = dubio.predict(network, x, draws=4, shared=True, generator=seeded()).draws
        for rows in (1, 6, 20, 31, 32):
            part = dubio.predict(network, x[:rows], draws=4, shared=True, generator=seeded()).draws
            torch.testing.assert_close(part, functions[:, :rows])
        loader = DataLoader(TensorDataset(x), batch_size=10)  # the last batch has two rows
        batched = dubio.predict(network, loader, draws=4, shared=True, generator=seeded()).draws
        torch.testing.assert_close(batched, functions)

    def test_masks_are_drawn_anew_for_every_prediction(self) -> None:
        """The same defect: masks live in the modules, and stay."""
        network, x = build("mlp")
        first, second = (dubio.predict(network, x, draws=4, shared=True).draws for _ in range(2))
        assert not torch.equal(first, second)

    @pytest.mark.parametrize("shared", [False, True])
    @pytest.mark.parametrize("behind", [False, True], ids=["in the trunk", "behind the dropout"])
    def test_errors_of_the_network_are_passed_on(self, behind: bool, shared: bool) -> None:
        """It reports any RuntimeError as CUDA out of memory."""
        wrong = nn.Linear(7, 3)
        network = nn.Sequential(nn.Dropout(0.5), wrong) if behind else nn.Sequential(wrong)
        x = torch.randn(4, 6)
        with pytest.raises(RuntimeError) as expected:
            network(x)
        with pytest.raises(RuntimeError) as actual:
            dubio.predict(network, x, shared=shared)
        assert type(actual.value) is type(expected.value)
        assert str(actual.value) == str(expected.value)

    @pytest.mark.parametrize("kind", [RuntimeError, ValueError, IndexError, NotImplementedError])
    def test_errors_raised_by_the_network_are_passed_on(self, kind: type[Exception]) -> None:
        """The same for errors of every kind, as the very object that was raised."""
        raised = kind("the user's own words")

        class Raising(nn.Module):
            def forward(self, x: Tensor) -> Tensor:
                nn.functional.dropout(x)
                raise raised

        with pytest.raises(kind) as error:
            dubio.predict(Raising(), torch.randn(4, 6))
        assert error.value is raised


class TestPosteriors:
    """posteriors 0.1.3."""

    @pytest.mark.parametrize("draws", [1, 2, 100])
    def test_several_draws_of_a_network_with_dropout(self, draws: int) -> None:
        """Dropout in the model breaks n_samples > 1: vmap refuses randomness."""
        network, x = build("mlp")
        result = dubio.predict(network.train(), x, draws=draws).draws
        assert result.shape == (draws, 4, 3)
        assert len(torch.unique(result, dim=0)) == draws


class TestConcreteDropout:
    """concretedropout 0.2.1."""

    @pytest.mark.parametrize("inplace", [False, True])
    def test_the_input_is_not_written_into(self, inplace: bool) -> None:
        """It writes into its input, so training behind a ReLU raises."""
        network = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Dropout(0.5), nn.Linear(6, 3))
        x = torch.randn(4, 6)
        before = x.clone()
        with dubio.Noise():
            network(x).sum().backward()
        assert network[0].weight.grad is not None
        dubio.predict(mlp(inplace=inplace), x, draws=5)
        assert torch.equal(x, before)

    def test_deepcopy_works(self) -> None:
        """Its ``deepcopy`` fails."""
        network, x = build("transformer")
        dubio.predict(network, x, draws=3)
        twin = copy.deepcopy(network)
        first, second = (
            dubio.predict(one, x, draws=3, generator=seeded()).draws for one in (network, twin)
        )
        assert torch.equal(first, second)


def test_log_likelihood_is_not_computed_while_predicting(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch-uncertainty 0.13 evaluates log-probabilities while predicting, at 5 times the cost."""
    likelihood = dubio.likelihoods.Categorical()
    monkeypatch.setattr(type(likelihood), "log_prob", None)
    network, x = build("mlp")
    assert dubio.predict(network, x, likelihood=likelihood).entropy.max() <= math.log(3)
