"""Sites: every place where noise enters has a name, and can be chosen by it."""

from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import dubio
from dubio.noise import register as registry
from networks import CASES, build
from references import seeded, train_mode_loop
from two_samples import critical_value, deviations, with_sums

# name, kind, rate and shape of every site, for a batch of four
EXPECTED: dict[str, list[tuple[str, str, float | None, tuple[int, ...]]]] = {
    "mlp": [
        ("0", "dropout", 0.2, (4, 6)),
        ("3", "dropout", 0.2, (4, 20)),
        ("6", "dropout", 0.5, (4, 20)),
    ],
    "functional": [("dropout", "dropout", 0.3, (4, 20))],
    "guarded": [("dropout", "dropout", 0.4, (4, 20))],
    "made in forward": [("Dropout", "dropout", 0.25, (4, 20))],
    "dropout1d": [("2", "dropout1d", 0.4, (4, 6, 5))],
    "dropout2d": [("2", "dropout2d", 0.4, (4, 6, 3, 3))],
    "dropout3d": [("2", "dropout3d", 0.4, (4, 6, 2, 2, 2))],
    "alpha dropout": [("2", "alpha_dropout", 0.2, (4, 6, 3, 3))],
    "feature alpha dropout": [("2", "feature_alpha_dropout", 0.2, (4, 6, 3, 3))],
    "lstm": [("rnn", "lstm", 0.4, (5, 4, 8)), ("rnn#2", "lstm", 0.4, (5, 4, 8))],
    "bidirectional gru": [("rnn", "gru", 0.4, (5, 4, 16)), ("rnn#2", "gru", 0.4, (5, 4, 16))],
    "rnn": [("rnn", "rnn_tanh", 0.4, (4, 5, 8)), ("rnn#2", "rnn_tanh", 0.4, (4, 5, 8))],
    "attention": [("attention", "attention", 0.3, (4, 2, 5, 5))],
    "attention weights": [("attention", "dropout", 0.3, (8, 5, 5))],
    "causal attention": [("attention", "attention", 0.3, (4, 2, 5, 5))],
    "residual": [("block.1", "dropout2d", 0.3, (4, 8, 6, 6))],
    "dense blocks": [(f"blocks.{i}.2", "dropout1d", 0.3, (4, 4, 7)) for i in range(3)],
    "called twice": [("drop", "dropout", 0.3, (4, 20)), ("drop#2", "dropout", 0.3, (4, 12))],
    "drop connect": [("dropout", "dropout", 0.3, (20, 6))],
    "gated module": [("first", "dropout", 0.1, (4, 6)), ("second", "dropout", 0.4, (4, 20))],
    "own noise": [("randn", "randn", None, (4, 6)), ("drop", "dropout", 0.3, (4, 20))],
}


@pytest.mark.parametrize("name", EXPECTED)
def test_every_site_is_listed(name: str) -> None:
    network, x = build(name)
    for mode in (False, True):
        sites = dubio.sites(network.train(mode), x)
        assert [(site.name, site.kind, site.rate, site.shape) for site in sites] == EXPECTED[name]
        assert [site.index for site in sites] == list(range(len(sites)))


@pytest.mark.parametrize("name", CASES)
def test_every_network_of_the_zoo_has_sites(name: str) -> None:
    network, x = build(name)
    sites = dubio.sites(network, x)
    assert sites
    assert len({site.name for site in sites}) == len(sites)


def test_a_transformer_has_a_site_for_every_dropout() -> None:
    network, x = build("transformer")
    names = [site.name for site in dubio.sites(network, x)]
    assert names == [
        "body.encoder.layers.0.self_attn",
        "body.encoder.layers.0.dropout1",
        "body.encoder.layers.0.dropout",
        "body.encoder.layers.0.dropout2",
        "body.decoder.layers.0.self_attn",
        "body.decoder.layers.0.dropout1",
        "body.decoder.layers.0.multihead_attn",
        "body.decoder.layers.0.dropout2",
        "body.decoder.layers.0.dropout",
        "body.decoder.layers.0.dropout3",
    ]


def test_functions_are_named_by_the_module_that_calls_them() -> None:
    network, x = build("functional")
    outer = nn.ModuleDict({"inner": nn.Sequential(network)})
    sites = dubio.sites(lambda x: outer["inner"](x), x)
    assert [site.name for site in sites] == ["inner.0.dropout"]
    sites = dubio.sites(nn.Sequential(outer["inner"]), x)
    assert [site.name for site in sites] == ["0.0.dropout"]
    assert sites[0].module is network


def test_a_dropout_that_is_never_called_does_not_change_the_mode() -> None:
    class Auxiliary(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.drop, self.unused = nn.Dropout(0.5), nn.Dropout(0.5)

        def forward(self, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
            y = self.drop(x)
            return (y, -y) if self.training else y

    network, x = Auxiliary().eval(), torch.ones(2, 30)
    assert [site.name for site in dubio.sites(network, x)] == ["drop"]
    assert (dubio.predict(network, x, draws=5).draws >= 0).all()


def test_sites_print_as_a_table() -> None:
    network, x = build("own noise")
    sites = dubio.sites(network, x)
    assert str(sites).splitlines() == [
        "site   kind     rate  shape",
        "---------------------------",
        "randn  randn    -     4 x 6",
        "drop   dropout  0.3   4 x 20",
    ]
    assert repr(sites) == str(sites)


def test_no_sites_print_as_words() -> None:
    assert str(dubio.sites(nn.Linear(3, 3), torch.ones(2, 3))) == "no stochastic sites"


def test_sites_of_a_loader_are_those_of_its_first_batch() -> None:
    network, x = build("mlp", 8)
    loader = DataLoader(TensorDataset(x, x), batch_size=4)
    assert dubio.sites(network, loader) == dubio.sites(network, x[:4])


class Mixture(nn.Module):
    """Columns that show the noise of one site each."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Identity(), nn.Dropout(0.5))
        self.head = nn.ModuleDict({"a": nn.Dropout(0.5), "b": nn.AlphaDropout(0.5)})

    def forward(self, x: Tensor) -> Tensor:
        parts = [self.trunk(x), self.head["a"](x), self.head["a"](x), self.head["b"](x)]
        return torch.stack([*parts, F.dropout(x, 0.5)], dim=1)


SITES = ["trunk.1", "head.a", "head.a#2", "head.b", "dropout"]


def is_second_call(site: dubio.Site) -> bool:
    return site.name.endswith("#2")


CHOICES: dict[str, tuple[object, list[str]]] = {
    "everything": (None, SITES),
    "name": ("trunk.1", ["trunk.1"]),
    "wildcard": ("head.*", ["head.a", "head.a#2", "head.b"]),
    "name of a module called twice": ("head.a", ["head.a", "head.a#2"]),
    "second call": ("head.a#2", ["head.a#2"]),
    "one of some letters": ("head.[b-z]", ["head.b"]),
    "function": ("dropout", ["dropout"]),
    "class": (nn.Dropout, ["trunk.1", "head.a", "head.a#2"]),
    "calling class": (Mixture, ["dropout"]),
    "predicate": (is_second_call, ["head.a#2"]),
    "list": (["trunk*", nn.AlphaDropout], ["trunk.1", "head.b"]),
    "tuple": (("dropout",), ["dropout"]),
}


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("choice", CHOICES)
def test_where_chooses_and_leaves_the_noise_of_the_others(choice: str, shared: bool) -> None:
    where, names = CHOICES[choice]
    network, x = Mixture(), torch.ones(3, 40)
    everything, some = (
        dubio.predict(
            network,
            x,
            draws=6,
            shared=shared,
            generator=seeded(),
            where=chosen,  # type: ignore[arg-type]
        ).draws
        for chosen in (None, where)
    )
    assert [site.name for site in dubio.sites(network, x)] == SITES
    for column, name in enumerate(SITES):
        expected = everything[:, :, column] if name in names else x.expand(6, 3, 40)
        assert torch.equal(some[:, :, column], expected)


def test_where_applies_to_networks_that_run_once_per_draw() -> None:
    network, x = build("written into")
    first, second, neither = (
        dubio.predict(network, x, draws=3, generator=seeded(), where=where).draws
        for where in ("drop#2", lambda site: site.name == "drop", lambda site: True)
    )
    assert not torch.equal(first, second)
    assert not torch.equal(first, neither)
    assert len(torch.unique(first, dim=0)) == 3


@pytest.mark.parametrize("where", ["tail.*", nn.Dropout2d, lambda site: False, []])
@pytest.mark.parametrize("shared", [False, True])
def test_where_that_chooses_nothing_lists_what_there_is(where: object, shared: bool) -> None:
    with pytest.raises(dubio.NoSitesError) as error:
        dubio.predict(Mixture(), torch.ones(3, 4), where=where, shared=shared)  # type: ignore[arg-type]
    message = str(error.value)
    assert "where= chose none of the 5 stochastic sites" in message
    assert all(name in message for name in SITES)


@pytest.mark.parametrize("where", [3, int, [3], Tensor])
def test_where_is_a_pattern_a_module_class_a_predicate_or_a_list(where: object) -> None:
    with pytest.raises(TypeError, match="where: expected"):
        dubio.predict(Mixture(), torch.ones(3, 4), where=where)  # type: ignore[arg-type]


@pytest.mark.parametrize("shared", [False, True])
def test_a_rate_of_one_gives_zeros_and_a_rate_of_zero_is_no_site(shared: bool) -> None:
    network = nn.Sequential(nn.Dropout(0.0), nn.Linear(6, 3, bias=False), nn.Dropout(1.0))
    x = torch.randn(4, 6)
    assert [site.name for site in dubio.sites(network, x)] == ["2"]
    draws = dubio.predict(network, x, draws=3, shared=shared).draws
    assert torch.equal(draws, torch.zeros(3, 4, 3))
    first = nn.Sequential(nn.Dropout(1.0), nn.Linear(6, 3))
    draws = dubio.predict(first, x, draws=3, shared=shared).draws
    torch.testing.assert_close(draws, first[1].bias.expand(3, 4, 3))


@pytest.mark.parametrize("rate", [-0.1, 1.5])
def test_a_rate_outside_of_zero_and_one_is_an_error(rate: float) -> None:
    with pytest.raises(ValueError, match="dropout probability"):
        dubio.predict(lambda x: F.dropout(x, rate), torch.ones(2, 3))


class DropPath(nn.Module):
    """Stochastic depth as vision models have it: drops a whole row, in train mode only."""

    def __init__(self, drop_prob: float) -> None:
        super().__init__()
        self.drop_prob = drop_prob

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.drop_prob == 0.0:
            return x
        keep = 1 - self.drop_prob
        mask = x.new_empty(len(x), *[1] * (x.dim() - 1)).bernoulli_(keep)
        return x * mask / keep


class Jitter(nn.Module):
    """Multiplies by a number that depends on the row and adds noise to every entry."""

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return x
        return x * (0.5 + torch.rand(len(x), 1)) + torch.randn_like(x)


class Deep(nn.Module):
    """A residual block with stochastic depth, behind a dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.drop, self.a, self.b = nn.Dropout(0.3), nn.Linear(6, 3), nn.Linear(6, 3)
        self.path = DropPath(0.4)

    def forward(self, x: Tensor) -> Tensor:
        h = self.drop(x)
        return self.a(h) + self.path(self.b(h))


def drop_path(module: DropPath, noise: dubio.SiteNoise, x: Tensor) -> Tensor:
    keep = 1 - module.drop_prob
    return x * noise.bernoulli(keep, len(x), *[1] * (x.dim() - 1)) / keep


def jitter(module: Jitter, noise: dubio.SiteNoise, x: Tensor) -> Tensor:
    return x * (0.5 + noise.uniform(len(x), 1)) + noise.normal(*x.shape)


@pytest.fixture
def unregistered() -> Iterator[None]:
    """What a test registers is forgotten after it."""
    forwards = {kind: kind.forward for kind in (DropPath, Jitter)}
    yield
    for kind, forward in forwards.items():
        kind.forward = forward  # type: ignore[method-assign]
        registry._registered.pop(kind, None)


@pytest.fixture
def registered(unregistered: None) -> None:
    """The two modules are known to dubio."""
    dubio.register(DropPath, drop_path, rate=lambda module: module.drop_prob)
    dubio.register(Jitter, jitter)


def make_deep() -> tuple[Deep, Tensor]:
    torch.manual_seed(0)
    return Deep().eval(), torch.randn(5, 6)


class TestRegistered:
    """A user's own noise module."""

    @pytest.mark.usefixtures("unregistered")
    def test_outside_of_dubio_the_module_is_what_it_was(self) -> None:
        network, x = make_deep()

        def outputs() -> Tensor:
            torch.manual_seed(3)
            return torch.stack([network.eval()(x), network.train()(x)])

        expected = outputs()
        dubio.register(DropPath, drop_path)
        assert torch.equal(outputs(), expected)

    def test_before_it_is_registered_it_draws_for_itself(self) -> None:
        assert [site.kind for site in dubio.sites(Jitter(), torch.ones(3, 7))] == ["rand", "randn"]
        network, x = make_deep()
        assert [site.kind for site in dubio.sites(network, x)] == ["dropout", "bernoulli_"]
        with pytest.raises(ValueError, match=r"shared=True.*bernoulli_.*dubio\.register"):
            dubio.predict(network, x, shared=True)

    @pytest.mark.usefixtures("registered")
    def test_it_is_listed_with_its_rate(self) -> None:
        network, x = make_deep()
        sites = [(s.name, s.kind, s.rate, s.shape) for s in dubio.sites(network, x)]
        assert sites == [
            ("drop", "dropout", 0.3, (5, 6)),
            ("path", "DropPath", 0.4, (5, 3)),
        ]
        (site,) = dubio.sites(Jitter(), x)
        assert (site.kind, site.rate) == ("Jitter", None)

    @pytest.mark.usefixtures("registered")
    def test_a_row_is_dropped_as_a_whole(self) -> None:
        ones = torch.ones(3, 7)
        draws = dubio.predict(DropPath(0.4), ones, draws=50, generator=seeded()).draws
        assert draws.unique().tolist() == pytest.approx([0.0, 1 / 0.6])
        assert torch.equal(draws, draws[:, :, :1].expand_as(draws))
        assert not torch.equal(draws, draws[:, :1].expand_as(draws))

    @pytest.mark.usefixtures("registered")
    @pytest.mark.parametrize("module", [DropPath(0.4), Jitter()])
    def test_shared_noise_is_the_same_for_every_row_and_batch(self, module: nn.Module) -> None:
        x = torch.randn(1, 7, generator=seeded()).expand(7, 7)
        draws = dubio.predict(module, x, draws=4, shared=True, generator=seeded()).draws
        torch.testing.assert_close(draws, draws[:, :1].expand_as(draws))
        assert len(torch.unique(draws, dim=0)) > 1
        for rows in (1, 2, 5):
            part = dubio.predict(module, x[:rows], draws=4, shared=True, generator=seeded()).draws
            torch.testing.assert_close(part, draws[:, :rows])

    @pytest.mark.usefixtures("registered")
    @pytest.mark.parametrize("shared", [False, True])
    def test_chunks_do_not_matter(self, shared: bool) -> None:
        network = nn.Sequential(Jitter(), DropPath(0.4), nn.Dropout(0.1))
        x = torch.randn(5, 6, generator=seeded())
        by_one, by_seven, at_once = (
            dubio.predict(
                network, x, draws=20, shared=shared, chunk=chunk, generator=seeded()
            ).draws
            for chunk in (1, 7, 100)
        )
        assert torch.equal(by_one, at_once)
        assert torch.equal(by_seven, at_once)

    @pytest.mark.usefixtures("registered")
    def test_a_site_that_is_not_chosen_is_quiet(self) -> None:
        network, x = make_deep()
        quiet = dubio.predict(network, x, draws=4, where="drop", generator=seeded()).draws
        network.path = nn.Identity()  # type: ignore[assignment]
        torch.testing.assert_close(
            dubio.predict(network, x, draws=4, generator=seeded()).draws, quiet
        )
        network, x = make_deep()
        alone = dubio.predict(network, x, draws=200, where=DropPath, generator=seeded()).draws
        kept = network.a(x) + network.b(x) / 0.6
        dropped = network.a(x).expand_as(kept)
        is_kept = (alone - kept).abs().amax(-1) < 1e-5  # (S, B)
        is_dropped = (alone - dropped).abs().amax(-1) < 1e-5
        assert (is_kept ^ is_dropped).all()
        assert 0.4 < is_kept.double().mean() < 0.8

    @pytest.mark.usefixtures("registered")
    @pytest.mark.parametrize("shared", [False, True])
    def test_spread_is_that_of_a_train_mode_loop(self, shared: bool) -> None:
        """False alarms: 1e-6 for both cases together."""
        network, x = make_deep()
        network = nn.Sequential(network, Jitter())
        reference = with_sums(train_mode_loop(network, x[:2], 20_000, copies=100))
        draws = dubio.predict(network, x[:2], draws=5000, shared=shared, generator=seeded()).draws
        found = deviations(with_sums(draws), reference)
        assert found.max() < critical_value(2 * found.numel(), 1e-6)

    @pytest.mark.usefixtures("registered")
    def test_registering_again_replaces_the_rule(self) -> None:
        dubio.register(DropPath, lambda module, noise, x: x + noise.normal(*x.shape))
        draws = dubio.predict(DropPath(0.4), torch.zeros(3, 7), draws=9, generator=seeded()).draws
        assert len(draws.unique()) == draws.numel()

    @pytest.mark.usefixtures("unregistered")
    def test_noise_that_is_asked_for_twice_is_drawn_twice(self) -> None:
        def twice(module: DropPath, noise: dubio.SiteNoise, x: Tensor) -> Tensor:
            return torch.cat([noise.bernoulli(0.5, *x.shape), noise.bernoulli(0.5, *x.shape)], 1)

        dubio.register(DropPath, twice)
        draws = dubio.predict(DropPath(0.4), torch.zeros(3, 40), draws=2, generator=seeded()).draws
        assert not torch.equal(draws[..., :40], draws[..., 40:])

    @pytest.mark.usefixtures("unregistered")
    def test_registering_again_replaces_the_rate(self) -> None:
        dubio.register(DropPath, drop_path)
        dubio.register(DropPath, drop_path, rate=lambda module: module.drop_prob)
        (site,) = dubio.sites(DropPath(0.4), torch.zeros(3, 7))
        assert site.rate == 0.4

    @pytest.mark.parametrize("wrong", [nn.Dropout(0.5), int, "DropPath"])
    def test_only_classes_of_modules_are_registered(self, wrong: object) -> None:
        with pytest.raises(TypeError, match=r"module_type: expected a subclass of nn\.Module"):
            dubio.register(wrong, drop_path)  # type: ignore[arg-type]
