"""What is said of the methods, and rules that decide whether our rows agree."""

from statistics import fmean

from dubio_studies.framework.claims import Claim, Finding, Refuted
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.standard_errors import standard_error, with_error
from dubio_studies.uci.tables import TITLES
from dubio_studies.uncertainty.methods.comparison import (
    AVERAGES,
    NAMES,
    agreement,
    differences,
    is_above_zero,
    on,
    paired,
    ranks,
    tables,
)

NOTICED = 0.6  # AUROC of shifted rows
AGREEMENT = 0.8  # of ranks, when trained for longer


def better_than_plain(rows: Rows) -> Finding:
    """The likelihood of each method with several functions against the plain network's."""
    texts, agrees = [], True
    for method in AVERAGES:
        found = differences(rows, "plain", method, "nll")
        texts.append(f"{NAMES[method]} {with_error(found)}")
        agrees = agrees and is_above_zero(found)
    return Finding("nats gained: " + ", ".join(texts), agrees)


def ensembles_lead(rows: Rows) -> Finding:
    """Mean ranks by likelihood."""
    found = {method: fmean(own) for method, own in ranks(rows, "nll").items()}
    order = sorted(found, key=lambda method: found[method])
    text = ", ".join(f"{NAMES[method]} {found[method]:.1f}" for method in order)
    return Finding(f"mean ranks: {text}", order[0] == "ensemble")


def learned_rates_are_as_good(rows: Rows) -> Finding:
    """Rates that are learned against one that validation chooses."""
    texts, agrees = [], True
    for method in ("concrete", "bernoulli"):
        found = differences(rows, method, "mc", "nll")
        texts.append(f"{NAMES[method]} less MC dropout {with_error(found)} nats")
        agrees = agrees and fmean(found) <= 2 * (standard_error(found) or 0.0)
    return Finding(", ".join(texts), agrees)


def notice_shift(rows: Rows) -> Finding:
    """The AUROC of shifted rows, averaged over splits and tables."""
    found = {
        m: fmean(fmean(on(rows, m, "auroc", table)) for table in tables(rows)) for m in AVERAGES
    }
    text = ", ".join(f"{NAMES[method]} {value:.2f}" for method, value in found.items())
    return Finding(text, min(found.values()) > NOTICED)


def losers_fit_less(rows: Rows) -> Finding:
    """Errors on training rows where the likelihood of test rows is below the plain network's."""
    if not rows.where(part="tables", metric="training rmse"):
        return Finding("not measured", False)
    worse = [
        (method, table)
        for method in AVERAGES
        for table in tables(rows)
        if is_above_zero(paired(rows, method, "plain", "nll", table))
    ]
    exceptions = [
        f"{NAMES[method]} on {TITLES[table]}"
        for method, table in worse
        if fmean(paired(rows, method, "plain", "training rmse", table)) <= 0
    ]
    text = f"{len(worse)} pairs of method and table lose, {len(exceptions)} of them fit as well"
    return Finding(
        ": ".join([text, *([", ".join(exceptions)] if exceptions else [])]), not exceptions
    )


def order_stays(rows: Rows) -> Finding:
    """Mean ranks of networks that are trained as long, and twice as long."""
    if not rows.where(part="longer"):
        return Finding("not run", False)
    found = agreement(rows)
    names = ", ".join(TITLES[table] for table in tables(rows, "longer"))
    return Finding(f"{found:.2f} on {names}".replace("-", "−"), found >= AGREEMENT)


CLAIMS = (
    Claim(
        "Every method that averages functions predicts better than a plain network.",
        "what all of them promise",
        "On tables the NLL of each is below the plain network's, by more than two standard errors "
        "of the paired differences over splits.",
        better_than_plain,
        otherwise=Refuted(
            "Only ensembles do. Noise gains nothing in networks this small: in 22 of the 23 cases "
            "where a method loses it also fits the training rows less, and twice the steps leave "
            "the order as it is."
        ),
    ),
    Claim(
        "Deep ensembles predict best.",
        "Lakshminarayanan et al. 2017, and many after them",
        "On tables they have the lowest mean rank by NLL.",
        ensembles_lead,
    ),
    Claim(
        "Learned dropout rates are as good as one that validation chooses.",
        "Gal et al. 2017; Boluki et al. 2020",
        "On tables the NLL of Concrete and of learnable Bernoulli dropout is not above that of MC "
        "dropout, by more than two standard errors of the paired differences over splits.",
        learned_rates_are_as_good,
    ),
    Claim(
        "Draws differ more where rows are unlike those seen in training.",
        "what epistemic uncertainty is for",
        f"On tables the AUROC of shifted rows is above {NOTICED:g} for every method but the plain "
        "network.",
        notice_shift,
        otherwise=Refuted(
            "Not with learnable Bernoulli dropout: its rates fall to 0.001 or less on every table, "
            "so that its draws hardly differ. Concrete dropout, with rates of at most 0.006, "
            "barely meets the rule; methods whose noise stays have 0.83 to 0.99."
        ),
    ),
    Claim(
        "A method predicts worse than a plain network only where it fits the training rows less.",
        "our explanation of losses",
        "Where the NLL of a method on a table is above the plain network's, by more than two "
        "standard errors of the paired differences over splits, so is its mean RMSE on training "
        "rows, by any amount.",
        losers_fit_less,
        otherwise=Refuted(
            "In 22 of 23 cases it is so. The exception, learnable Bernoulli dropout on protein, "
            "loses 0.007 ± 0.003 nats at an equal fit."
        ),
        ours=True,
    ),
    Claim(
        "Twice the steps leave the order as it is.",
        "a check of our number of steps",
        "On tables that are also run with twice the steps, the rank correlation of the methods' "
        f"mean ranks by NLL is at least {AGREEMENT:g}.",
        order_stays,
        ours=True,
    ),
)
