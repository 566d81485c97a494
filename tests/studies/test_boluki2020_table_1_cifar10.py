"""boluki2020/table-1-cifar10: heads, numbers against naive loops, rules that fail."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn import metrics as reference
from torch import Tensor, nn

import dubio
from dubio.likelihoods import Categorical
from dubio.masks import Bernoulli, Concrete, LearnableBernoulli, LearnableGaussian, Mask
from dubio_studies.boluki2020.table_1_cifar10.claims import CLAIMS
from dubio_studies.boluki2020.table_1_cifar10.computation import (
    METHODS,
    Config,
    pieces,
    probabilities,
    rates,
)
from dubio_studies.boluki2020.table_1_cifar10.ledger import (
    accuracy_of_all_layers,
    with_error_of_order,
)
from dubio_studies.boluki2020.table_1_cifar10.reading import (
    LBD_LAYER,
    LBD_UNIT,
    MC,
    NAMES,
    PUBLISHED,
    REGULAR,
    Variant,
    difference,
)
from dubio_studies.boluki2020.table_1_cifar10.scores import (
    entropy,
    scores,
    summed_over_batches,
)
from dubio_studies.framework.claims import Claim
from dubio_studies.framework.ledger import Number
from dubio_studies.framework.rows import Rows
from dubio_studies.photographs.heads import Method, masked_head

TRUNKS = ("efficientnet-lite0", "vgg16")


def made(method: Method, hidden: int = 6) -> nn.Module:
    torch.manual_seed(0)
    return masked_head(method, 4, 10, hidden=hidden, drop=0.5, length_scale=2.0)


def masks(network: nn.Module) -> list[Mask]:
    return [module for module in network.modules() if isinstance(module, Mask)]


@pytest.mark.parametrize(
    ("method", "kind", "units", "learned"),
    [
        ("dropout", Bernoulli, 1, 0),
        ("gaussian", LearnableGaussian, 1, 2),
        ("concrete", Concrete, 1, 2),
        ("lbd-layer", LearnableBernoulli, 1, 2),
        ("lbd-unit", LearnableBernoulli, 6, 2),
        ("lbd-shared", LearnableBernoulli, 1, 1),
    ],
)
def test_heads_are_the_papers(method: Method, kind: type[Mask], units: int, learned: int) -> None:
    network = made(method)
    found = masks(network)
    assert [type(mask) for mask in found] == [kind, kind]
    assert [mask.units for mask in found] == [units, units]
    assert all(float(mask.drop.mean()) == pytest.approx(0.5) for mask in found)
    weights = 4 * 6 + 6 + 6 * 6 + 6 + 6 * 10 + 10
    assert sum(p.numel() for p in network.parameters()) == weights + learned * units
    layers = [module for module in network.modules() if isinstance(module, dubio.Masked)]
    assert [layer.length_scale for layer in layers] == [2.0, 2.0]
    assert network(torch.zeros(3, 4, dtype=torch.float16)).shape == (3, 10)


def test_one_rate_learns_from_both_layers() -> None:
    network = made("lbd-shared")
    first, second = masks(network)
    dubio.ELBO(network, Categorical(), num_data=5)(torch.randn(5, 4), torch.arange(5)).backward()
    assert first is not second
    parameters = dict(first.named_parameters())
    assert parameters["logit"] is dict(second.named_parameters())["logit"]
    assert parameters["logit"].grad is not None


def test_rates_of_units() -> None:
    network = made("lbd-unit")
    with torch.no_grad():
        dict(masks(network)[0].named_parameters())["logit"].copy_(torch.linspace(-2, 2, 6))
    rows = Rows(list(rates(network)))
    drops = torch.sigmoid(-torch.linspace(-2, 2, 6))
    assert rows.value(metric="drop", layer=1) == pytest.approx(float(drops.mean()))
    assert rows.value(metric="drop quantile", layer=1, level=1.0) == pytest.approx(
        float(drops.max())
    )
    assert rows.value(metric="drop", layer=2) == pytest.approx(0.5)


def test_predictions_with_and_without_noise() -> None:
    network = made("dropout").eval()
    seen = torch.randn(7, 4).half()
    plain = probabilities(network, seen, 0)
    with torch.no_grad():
        torch.testing.assert_close(plain, network(seen).softmax(-1).double())
    drawn = probabilities(network, seen, 500)
    assert not torch.equal(drawn, plain)
    assert torch.allclose(drawn.sum(-1), torch.ones(7, dtype=torch.float64), atol=1e-5)


def prediction(cases: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(cases, 10, generator=generator, dtype=torch.float64)
    found = logits.softmax(-1)
    return found, torch.multinomial(found, 1, generator=generator)[:, 0]


def test_scores_against_naive_loops() -> None:
    found, labels = prediction(250)
    validation, _ = prediction(90, seed=1)
    validation = validation[entropy(validation) > 1.5]  # other bounds than those of the test
    rows = Rows(list(scores(found, labels, validation)))
    doubts = np.array([stats.entropy(p) for p in found.numpy()])
    right = found.argmax(-1).numpy() == labels.numpy()
    sums = np.array([doubts[i // 100 * 100 : i // 100 * 100 + 100].sum() for i in range(250)])

    def mean_pavgpu(uncertainty: Any, low: float, high: float) -> float:
        """At 101 thresholds, one by one; at the ends nothing and everything is certain."""
        found = []
        for k in range(101):
            certain = uncertainty <= low + k / 100 * (high - low) + 1e-12
            if k in (0, 100):
                certain = np.full(250, k == 100)
            found.append((certain == right).mean())
        return float(np.trapezoid(found, dx=0.01))

    bounds = [stats.entropy(p) for p in validation.numpy()]
    exact = {
        "pavgpu, image": mean_pavgpu(doubts, doubts.min(), doubts.max()),
        "pavgpu, batch": mean_pavgpu(sums, sums.min(), sums.max()),
        "pavgpu, validation": mean_pavgpu(doubts, min(bounds), max(bounds)),
        "pavgpu, ranks": mean_pavgpu(stats.rankdata(doubts), 0.5, 250.5),
        "accuracy": right.mean(),
        "nll": -np.log(found.numpy()[np.arange(250), labels.numpy()]).mean(),
        "error auroc, image": reference.roc_auc_score(~right, doubts),
        "error auroc, batch": reference.roc_auc_score(~right, sums),
        "accurate if certain": right[doubts <= doubts.mean()].mean(),
        "uncertain if inaccurate": (doubts > doubts.mean())[~right].mean(),
    }
    for metric, value in exact.items():
        assert rows.value(metric=metric) == pytest.approx(float(value), abs=1e-9), metric
    for over in ("image", "batch"):
        curve = rows.where(metric="curve", over=over)
        assert len(curve) == 21
        assert curve[0]["value"] == pytest.approx(1 - right.mean())
        assert curve[-1]["value"] == pytest.approx(right.mean())


def test_entropies_of_the_authors_code() -> None:
    found, _ = prediction(230)
    doubts = entropy(found)
    torch.testing.assert_close(doubts, torch.distributions.Categorical(found).entropy())
    sums = summed_over_batches(doubts)
    assert len(sums) == 230
    for start in (0, 100, 200):
        part = sums[start : start + 100]
        assert part.unique().numel() == 1
        assert float(part[0]) == pytest.approx(float(doubts[start : start + 100].sum()))
    certain = torch.tensor([[1.0, 0.0]])
    assert float(entropy(certain)) == 0.0


def test_two_softmaxes_leave_little_room() -> None:
    """No probability above 23.2 %, no entropy below 2.22 nats, however sure the first one is."""
    sure = torch.zeros(1, 10)
    sure[0, 3] = 1.0
    network = nn.Sequential(nn.Softmax(-1))
    twice = probabilities_of(network, 1000 * sure)
    assert float(twice.max()) == pytest.approx(math.e / (math.e + 9))
    assert float(entropy(twice)) == pytest.approx(2.229, abs=1e-3)


def probabilities_of(network: nn.Module, logits: Tensor) -> Tensor:
    found: Tensor = network(logits).softmax(-1)
    return found


def test_pieces() -> None:
    config = Config(trunks=("vgg16", "efficientnet-lite0"), restarts=2)
    found = pieces(config)
    assert len(found) == 2 * 2 * (len(METHODS) + 2)
    assert len({tuple(piece.items()) for piece in found}) == len(found)
    assert {piece["restart"] for piece in found[: len(found) // 2]} == {1}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"images": 50_000}, "images: expected at most 45,000"),
        ({"trunks": ("resnet",)}, "trunks: expected some of"),
        ({"trunks": ()}, "trunks: expected some of"),
        ({"methods": ("magic",)}, "methods: expected some of"),
        ({"drop": 1.0}, "drop: expected a rate"),
        ({"epochs": 0}, "epochs: expected at least 1"),
        ({"length_scale": 0.0}, "length_scale: expected a positive number"),
    ],
)
def test_settings_that_cannot_be_computed(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Config(**settings)


def claim_with(words: str) -> Claim:
    (found,) = (claim for claim in CLAIMS if words in claim.text)
    return found


def made_up(levels: dict[Variant, dict[str, float]], noise: float = 0.001) -> Rows:
    """Rows of three networks of each kind on both trunks, around a level for each metric."""
    rows: list[dict[str, Any]] = []
    for trunk in TRUNKS:
        for variant in NAMES:
            for restart in (1, 2, 3):
                own = {
                    "trunk": trunk, "method": variant.method, "loss": variant.loss,
                    "restart": restart,
                }  # fmt: skip
                shift = noise * (restart - 2)
                for metric, level in levels[variant].items():
                    rows.append(
                        {**own, "prediction": variant.prediction, "metric": metric,
                         "value": level + shift, "cases": 100}
                    )  # fmt: skip
                if variant != REGULAR:
                    rows += [
                        {**own, "metric": "drop", "layer": layer, "value": 0.3 + shift}
                        for layer in (1, 2)
                    ]
                    rows += [
                        {**own, "metric": "watched", "epoch": epoch, "value": 0.2 + 0.1 / epoch}
                        for epoch in (98, 99, 100)
                    ]
    return Rows(rows)


def agreeing() -> dict[Variant, dict[str, float]]:
    """The numbers of the paper, but with PAvgPU by photograph as high as it should be."""
    levels = {}
    for place, variant in enumerate(NAMES):
        accuracy = PUBLISHED[variant].accuracy if variant in PUBLISHED else 0.93
        levels[variant] = {
            "accuracy": accuracy,
            "pavgpu, image": 0.9 - 0.02 * place,
            "pavgpu, batch": 0.6 - 0.01 * place,
            "error auroc, image": 0.9 - 0.01 * place,
        }
    return levels


def test_rows_like_the_papers_agree() -> None:
    rows = made_up(agreeing())
    for claim in CLAIMS:
        finding = claim.judge(rows)
        assert finding.agrees, (claim.text, finding.ours)


@pytest.mark.parametrize(
    ("claim", "variant", "metric", "value"),
    [
        ("most accurate", MC, "accuracy", 0.934),
        ("Concrete dropout is more accurate", MC, "accuracy", 0.9265),
        ("mean PAvgPU.", MC, "pavgpu, image", 0.899),
        ("One learned rate", MC, "accuracy", 0.921),
        ("Summing entropies over a batch", MC, "pavgpu, batch", 0.7),
        ("Summing entropies over a batch", MC, "pavgpu, image", 0.6),
        ("detecting its own errors", MC, "error auroc, image", 0.95),
    ],
)
def test_rows_that_break_a_rule(claim: str, variant: Variant, metric: str, value: float) -> None:
    levels = agreeing()
    levels[variant][metric] = value
    assert not claim_with(claim).judge(made_up(levels)).agrees


def test_differences_within_noise_decide_nothing() -> None:
    rows = made_up(agreeing(), noise=0.05)
    for text in ("most accurate", "mean PAvgPU.", "One learned rate"):
        assert not claim_with(text).judge(rows).agrees


def test_too_few_rows_meet_no_rule() -> None:
    rows = made_up(agreeing())
    without = Rows([row for row in rows if row["method"] != "concrete"])
    finding = claim_with("most accurate").judge(without)
    assert not finding.agrees
    assert "Not run: Concrete" in finding.ours


def test_margins_are_those_of_welch() -> None:
    generator = np.random.default_rng(3)
    levels = agreeing()
    rows = [dict(row) for row in made_up(levels)]
    for row in rows:
        row["value"] = float(generator.normal(0.9, 0.01))
    found = difference(Rows(rows), "vgg16", LBD_UNIT, MC, "accuracy")
    own = Rows(rows).where(trunk="vgg16", metric="accuracy", prediction="draws")
    a, b = (own.where(method=method).values() for method in ("lbd-unit", "dropout"))
    interval = stats.ttest_ind(a, b, equal_var=False).confidence_interval(0.95)
    assert found.margin is not None
    assert found.mean - found.margin == pytest.approx(interval.low)
    assert found.mean + found.margin == pytest.approx(interval.high)


def test_the_ledger_has_networks_whose_layers_all_learn() -> None:
    kind = {"trunk": "vgg16", "method": "dropout", "prediction": "draws", "metric": "accuracy"}
    one = Rows([{**kind, "trained": True, "value": 0.9, "cases": 10_000}])
    found = accuracy_of_all_layers(one, MC)
    assert found is not None
    assert found.mean == pytest.approx(90)
    assert found.error == pytest.approx(100 * math.sqrt(0.9 * 0.1 / 10_000))  # of photographs
    two = Rows([*one, {**one[0], "value": 0.92}])
    found = accuracy_of_all_layers(two, MC)
    assert found is not None
    assert found == pytest.approx((91, 1))  # over networks
    assert accuracy_of_all_layers(Rows([{**kind, "trained": False, "value": 0.8}]), MC) is None
    assert accuracy_of_all_layers(one, LBD_LAYER) is None


def test_the_order_of_photographs_adds_an_error_to_summed_entropies() -> None:
    order = {"trained": False, "metric": "pavgpu by order", "level": "deviation"}
    below = Rows(
        [
            {**order, "pixels": 32, "value": 0.5},
            {**order, "pixels": 64, "value": 0.03},
            {**order, "pixels": 64, "value": 0.05},
        ]
    )
    assert with_error_of_order(Number(52.0, 3.0), below) == pytest.approx((52, 5))
    assert with_error_of_order(Number(52.0), Rows([])) == (52.0, 0.0)
