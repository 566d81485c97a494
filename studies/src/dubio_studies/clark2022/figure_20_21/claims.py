"""What Clark et al. 2022 says of pruning."""

from statistics import fmean

from dubio_studies.clark2022.legend import NAMES, widths
from dubio_studies.framework.claims import Claim, Finding, Refuted
from dubio_studies.framework.rows import Rows

PRIORS = ("gaussian", "mixture")  # claims are judged by these
METHODS = (*PRIORS, "cold gaussian", "cold mixture", "authors gaussian")
BLUNDELL = {0.0: 1.24, 0.5: 1.24, 0.75: 1.24, 0.95: 1.29, 0.98: 1.39}  # test error, percent
TOLERATED = 0.003  # accuracy that pruning may cost
ALIKE = (0.75, 0.9, 0.95, 0.98)  # shares at which networks are compared
CLEAR = (0.5, 0.75, 0.9, 0.95, 0.98)  # shares at which layers are compared


def costs(rows: Rows, share: float) -> dict[tuple[str, int], tuple[float, float]]:
    """What pruning adds to the error by draws, and its standard error, by method and width."""
    found = {}
    for width in widths(rows):
        for method in METHODS:
            own = rows.where(
                metric="cost", reading="draws", share=share, method=method, width=width
            )
            if own:
                found[method, width] = (fmean(own.values()), fmean(own.values("error")))
    return found


def is_cheap(share: float, rows: Rows) -> Finding:
    """What each kind of network loses with this share of weights, and whether that is little."""
    found = costs(rows, share)
    cheap = {kind: cost <= TOLERATED for kind, (cost, _) in found.items()}
    shown = "; ".join(
        f"{named(*kind)} {points(*found[kind])} ({'holds' if cheap[kind] else 'fails'})"
        for kind in found
    )
    agrees = all(cheap[kind] for kind in found if kind[0] in PRIORS)
    return Finding(shown, agrees)


def named(method: str, width: int) -> str:
    """A kind of network."""
    return f"{NAMES[method]}, {width} units"


def points(cost: float, noise: float) -> str:
    """A cost in points, and its standard error."""
    return f"{100 * cost:+.2f} ± {100 * noise:.2f}".replace("-", "−")


def cheap_at_95(rows: Rows) -> Finding:
    """What networks lose with 95 % of their weights."""
    return is_cheap(0.95, rows)


def cheap_at_98(rows: Rows) -> Finding:
    """What networks lose with 98 % of their weights."""
    return is_cheap(0.98, rows)


def is_alike(rows: Rows) -> Finding:
    """How different networks are in what they lose."""
    shown, agrees = [], True
    for share in ALIKE:
        found = costs(rows, share)
        losses = [cost for (method, _), (cost, _) in found.items() if method in PRIORS]
        agrees &= max(losses) - min(losses) <= TOLERATED
        lost = "; ".join(f"{named(*kind)} {points(*found[kind])}" for kind in found)
        shown.append(f"{share:.0%} pruned: {lost}")
    return Finding(". ".join(shown), agrees)


def output_is_critical(rows: Rows) -> Finding:
    """Median signal-to-noise and kept shares by layer."""
    layers = sorted(rows.where(metric="kept").distinct("layer"))
    shown, agrees = [], True
    for method in METHODS:
        own = rows.where(method=method)
        if not own:
            continue
        medians = [fmean(own.where(metric="median ratio", layer=k).values()) for k in layers]
        highest = [max(medians) == medians[-1]]
        for share in CLEAR:
            kept = [fmean(own.where(metric="kept", share=share, layer=k).values()) for k in layers]
            highest.append(max(kept) == kept[-1])
        agrees &= method not in PRIORS or all(highest)
        shown.append(
            f"{NAMES[method]}: medians {', '.join(f'{m:.1f}' for m in medians)} dB by layer; "
            f"kept of {CLEAR[-1]:.0%} pruned {', '.join(f'{k:.1%}' for k in kept)}"
        )
    return Finding("; ".join(shown).replace("-", "−"), agrees)


CLAIMS = (
    Claim(
        "The accuracy stays the same until 95 % of the weights are pruned.",
        "About 98.5 % up to there; Blundell et al. 2015: from 1.24 to 1.29 % error",
        "With 95 % of the weights pruned, the test error with draws is at most 0.3 points "
        "higher than without pruning, for each prior and width with the full KL; ± is the "
        "standard error of the difference on the same images.",
        cheap_at_95,
    ),
    Claim(
        "98 % of the weights can be pruned.",
        "Blundell et al. 2015: from 1.24 to 1.39 % error",
        "With 98 % pruned it is at most 0.3 points higher, for the same networks.",
        cheap_at_98,
        otherwise=Refuted(
            "Not with the Gaussian prior, where 98 % cost 2.2 points; with a mixture like that of "
            "Blundell et al., but of our scales, they cost none. By the authors' protocol, "
            "shortened to 24 epochs, 75 % already cost 1.8 points and 95 % cost 50."
        ),
    ),
    Claim(
        "The effect of pruning hardly depends on width and prior.",
        "Figure 20, without numbers",
        "The cost of pruning 75, 90, 95 and 98 % differs by at most 0.3 points between any "
        "two priors and widths, with the full KL.",
        is_alike,
        otherwise=Refuted(
            "Beyond 95 % it depends on the prior: 98 % cost 2.2 points with the Gaussian prior and "
            "none with the mixture, probably because of its spike at zero. Width was not varied."
        ),
    ),
    Claim(
        "Weights of the output layer have the highest signal-to-noise ratio and are kept longest.",
        "Figure 21, without numbers",
        "For each prior with the full KL, the output layer has the highest median ratio, and "
        "keeps the largest share of its weights when 50, 75, 90, 95 and 98 % of all are "
        "pruned.",
        output_is_critical,
    ),
)
