"""Fill the measured tables of docs/which-method.md from the rows in results/.

``python tools/site/measured.py`` writes them into the page; a test checks that they are current.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from dubio_studies.framework.rows import Rows
from dubio_studies.uncertainty.methods.comparison import AVERAGES, differences, on, ranks
from dubio_studies.uncertainty.methods.comparison import tables as tables_of

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "which-method.md"
Row = dict[str, Any]
NAMES = {
    "plain": "plain network",
    "mc": "MC dropout",
    "concrete": "Concrete dropout",
    "bernoulli": "learnable Bernoulli",
    "bayes": "Bayes by Backprop",
    "ensemble": "ensemble of 5",
    "linear": "closed form, linear",
}


def rows(run: str) -> list[Row]:
    """Read all rows of a stored run."""
    text = (ROOT / "results" / run / "rows.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def values(found: list[Row], **wanted: Any) -> list[float]:
    """Return the values of the rows with these fields."""
    return [
        float(row["value"])
        for row in found
        if all(row.get(name) == value for name, value in wanted.items())
    ]


def table(heads: list[str], lines: Iterator[list[str]]) -> str:
    """Format a Markdown table."""
    head = f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}\n"
    return head + "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def with_error(found: list[float], digits: int) -> str:
    """Format a mean and its standard error."""
    error = stdev(found) / len(found) ** 0.5
    return f"{mean(found):.{digits}f} ± {error:.{digits}f}".replace("-", "−")


def tables() -> str:
    """Return the table of errors and likelihoods on UCI tables."""
    run, splits = "gal2017/tables-3-4/small-db62c39d", 5  # some methods have more
    found = rows(run)
    shared = [row for row in found if row["split"] < splits]
    names = ("ensemble", "mc", "concrete", "bernoulli", "bayes", "linear")

    def lines() -> Iterator[list[str]]:
        for method in names:
            cells = [
                with_error(values(shared, table=name, method=method, stage="tuned", metric=m), 2)
                for name in ("yacht", "boston", "energy")
                for m in ("rmse", "log-likelihood")
            ]
            yield [NAMES[method], *cells]

    heads = [f"{t}: {m}" for t in ("yacht (308 rows)", "Boston (506)", "energy (768)")
             for m in ("RMSE", "log-lik.")]  # fmt: skip
    return (
        f"{table(['', *heads], lines())}\nStudy `gal2017/tables-3-4` at the scale *small*: "
        "five splits, settings tuned for each method, mean ± standard error of the splits. Higher "
        "log-likelihood is better. The ensemble has the lowest error on all three tables. The "
        "linear model is not enough here, but costs next to nothing to try. On the smallest table, "
        "single splits dominate the likelihood.\n"
    )


def digits() -> str:
    """Return the table of MNIST and out-of-distribution images."""
    found = rows("uncertainty/digits-vs-shift/small-201d7eb2")

    def lines() -> Iterator[list[str]]:
        passes = [row for row in found if row["metric"] == "passes"]
        base = min(row["cpu_seconds"] for row in passes if row["method"] == "plain")
        for method in ("plain", "ensemble", "mc", "concrete", "bernoulli", "bayes"):
            score = "entropy" if method == "plain" else "mutual information"
            one = {
                m: mean(values(found, method=method, metric=m)) for m in ("accuracy", "nll", "ece")
            }
            foreign = [
                mean(values(found, method=method, metric="auroc", foreign=name, score=score))
                for name in ("Fashion-MNIST", "notMNIST")
            ]
            own = [row for row in passes if row["method"] == method]
            cost = min(row["cpu_seconds"] for row in own) / base
            yield [
                NAMES[method], f"{one['accuracy']:.1%}", f"{one['nll']:.3f}", f"{one['ece']:.1%}",
                *(f"{v:.3f}" for v in foreign), str(own[0]["value"]), f"{cost:.0f}",
                f"{min(row['seconds'] for row in own):.0f} s",
            ]  # fmt: skip

    heads = ["", "accuracy", "NLL", "ECE", "AUROC, clothes", "AUROC, letters", "passes",
             "prediction", "study"]  # fmt: skip
    return (
        f"{table(heads, lines())}\nStudy `uncertainty/digits-vs-shift` at the scale *small*: a "
        "784-200-200-10 network, 10,000 images of MNIST, 20 epochs, 10,000 test images. Means of "
        "three networks: differences of 0.3 points in accuracy are chance. AUROC: how well the "
        "mutual information (plain network: the entropy) separates Fashion-MNIST or notMNIST from "
        "digits; "
        "0.5 is chance. *Prediction*: CPU time as a multiple of the plain network's. *Study*: "
        "seconds for training and all scores, of the fastest.\n"
    )


def camvid() -> str:
    """Return the table of street scenes."""
    run = rows("boluki2020/table-1-camvid/small-316ec202")
    plain = rows("gal2017/table-1/small-d99e2afa")
    kinds = {
        "fixed": "MC dropout, rate 0.2",
        "concrete": NAMES["concrete"],
        "bernoulli": NAMES["bernoulli"],
        "gaussian": "Gaussian, learned",
    }

    def lines() -> Iterator[list[str]]:
        one = {m: mean(values(plain, kind="none", sampling="one pass", metric=m))
               for m in ("mean IoU", "accuracy", "nll")}  # fmt: skip
        yield ["no dropout", f"{one['mean IoU']:.1%}", f"{one['accuracy']:.1%}",
               f"{one['nll']:.3f}", "–", "–"]  # fmt: skip
        for kind, name in kinds.items():
            cell = {
                m: mean(values(run, kind=kind, sampling="draws", metric=m))
                for m in ("mean IoU", "accuracy", "nll", "ECE", "error AUROC")
            }
            yield [name, f"{cell['mean IoU']:.1%}", f"{cell['accuracy']:.1%}", f"{cell['nll']:.3f}",
                   f"{cell['ECE']:.1%}", f"{cell['error AUROC']:.3f}"]  # fmt: skip

    heads = ["", "mean IoU", "pixel accuracy", "NLL", "ECE", "errors found (AUROC)"]
    return (
        f"{table(heads, lines())}\nStudies `boluki2020/table-1-camvid` and `gal2017/table-1` "
        "at the scale *small*: CamVid, a pretrained EfficientNet-Lite0 trunk, three forks of one "
        "network, ten draws. Methods differ by less than a point of IoU; likelihood and "
        "calibration differ more.\n"
    )


def movielens() -> str:
    """Return the table of recommenders."""
    found = rows("boluki2020/table-2/small-31f0efc7")
    shown = {
        "ease": "`EASE`", "dae": "`DAE`", "wmf": "ALS (implicit)", "vae-drop": "`VAE` with dropout",
        "sivae-cdrop": "semi-implicit `VAE`, Concrete",
        "sivae-lbdrop": "semi-implicit `VAE`, learnable Bernoulli", "popular": "`Popular`",
    }  # fmt: skip

    def lines() -> Iterator[list[str]]:
        for method, name in shown.items():
            reading = (
                "draws"
                if values(found, method=method, prediction="draws", metric="ndcg@100")
                else "mean"
            )
            cells = [mean(values(found, method=method, prediction=reading, metric=m))
                     for m in ("ndcg@100", "recall@20")]  # fmt: skip
            spent = mean(
                row["cpu_seconds"] for row in found
                if row["method"] == method and row["metric"] == "users"
            )  # fmt: skip
            spread = "yes" if reading == "draws" else "no"
            yield [name, *(f"{cell:.3f}" for cell in cells), spread, f"{spent:.0f} s"]

    return (
        f"{table(['', 'NDCG@100', 'recall@20', 'a spread', 'CPU time'], lines())}\n"
        "Study `boluki2020/table-2` at the scale *small*: MovieLens 1M, 1,000 test users, three "
        "restarts of the models with random weights.\n"
    )


def bandits() -> str:
    """Return the table of regrets."""
    found = rows("uncertainty/bandits/small-eb77a29c")
    shown = {
        "greedy": "greedy", "linear": "exact linear", "neural linear": "exact last layer",
        "ensemble": NAMES["ensemble"], "dropout": NAMES["mc"], "concrete": NAMES["concrete"],
        "bernoulli": NAMES["bernoulli"], "bayes": NAMES["bayes"],
    }  # fmt: skip
    problems = ("mushroom", "wheel 0.5", "wheel 0.7", "wheel 0.9")

    def lines() -> Iterator[list[str]]:
        for method, name in shown.items():
            cells = (with_error(values(found, problem=p, method=method), 1) for p in problems)
            yield [name, *cells]

    return (
        f"{table(['', *problems], lines())}\nStudy `uncertainty/bandits` at the scale *small*: "
        "regret relative to choosing at random (100), after 2,000 interactions, mean ± standard "
        "error of 20 trials. On the wheels exploration pays, and exact posteriors, of a linear "
        "model or of the last layer, explore best. On mushrooms greedy is as good as any.\n"
    )


METHODS = "uncertainty/methods/small-71ec70e5"
ALL_NAMES = {
    **NAMES,
    "gaussian": "Gaussian, learned",
    "drop-connect": "DropConnect",
    "last-layer": "Bayes by Backprop, last layer",
}


def ranked() -> str:
    """Return the table of every method on the same tables."""
    found = Rows(rows(METHODS))
    own = {metric: ranks(found, metric) for metric in ("nll", "rmse", "calibration")}
    shifted = {
        m: f"{mean(mean(on(found, m, 'auroc', t)) for t in tables_of(found)):.2f}" for m in AVERAGES
    }

    def lines() -> Iterator[list[str]]:
        order = sorted(own["nll"], key=lambda method: mean(own["nll"][method]))
        for method in order:
            quality = (own[m].get(method) for m in own)
            gained = with_error(differences(found, "plain", method, "nll"), 2)
            yield [
                ALL_NAMES[method],
                *("–" if each is None else with_error(each, 1) for each in quality),
                "–" if method == "plain" else gained,
                shifted.get(method, "–"),
            ]

    heads = ["", "rank: NLL", "rank: RMSE", "rank: calibration", "nats gained", "shift, AUROC"]
    return (
        f"{table(heads, lines())}\nStudy `uncertainty/methods` at the scale *small*: nine tables "
        "of 308 to 45,730 rows, five splits of each, one hidden layer of 50, 5,000 steps, three "
        "settings tried for each method. Mean ranks of ten, 1 is the best, ± standard errors over "
        "tables and splits. *Nats gained*: over the plain network. *Shift*: how well the spread of "
        "draws tells rows with noise on their features from others. With twice the steps, on two "
        "tables, the order is nearly the same.\n"
    )


def methods() -> str:
    """Return the table of every method on the same digits."""
    found = [r for r in rows(METHODS) if r["part"] == "digits"]

    def cost(method: str, metric: str) -> str:
        own, plain = (  # the first run of a process also loads modules
            min(r["cpu_seconds"] for r in found if r["method"] == m and r["metric"] == metric)
            for m in (method, "plain")
        )
        return f"{own / plain:.1f}"

    def lines() -> Iterator[list[str]]:
        for method in dict.fromkeys(r["method"] for r in found):
            scores = {m: values(found, method=method, metric=m) for m in ("error", "nll")}
            noticed = values(found, method=method, metric="auroc", foreign="Fashion-MNIST")
            yield [
                ALL_NAMES[method], with_error([100 * v for v in scores["error"]], 1),
                with_error(scores["nll"], 3), with_error(noticed, 2),
                cost(method, "training"), cost(method, "prediction"),
            ]  # fmt: skip

    heads = ["", "error, %", "NLL", "AUROC, clothes", "training", "prediction"]
    return (
        f"{table(heads, lines())}\nStudy `uncertainty/methods` at the scale *small*: 5,000 images "
        "of MNIST, ten epochs, nothing tuned, mean ± standard error of three runs. Costs are CPU "
        "time, the least of the runs, relative to the plain network; noisy methods use 30 draws.\n"
    )


TABLES: dict[str, Callable[[], str]] = {
    "tables": tables,
    "ranks": ranked,
    "methods": methods,
    "digits": digits,
    "camvid": camvid,
    "movielens": movielens,
    "bandits": bandits,
}


def filled(page: str) -> str:
    """Fill the tables of a page from the stored rows."""
    for name, make in TABLES.items():
        before, mark, rest = page.partition(f"<!-- measured: {name} -->\n")
        _, end, after = rest.partition("<!-- end -->")
        if not (mark and end):
            raise ValueError(f"{PAGE.name}: expected a place for the table {name!r}, got none")
        page = f"{before}{mark}\n{make()}\n{end}{after}"
    return page


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
