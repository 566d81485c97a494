"""Regrets that others have published, in percent of that of uniform actions."""

METHODS = {
    "bayes": "Bayes by Backprop",
    "dropout": "MC dropout",
    "concrete": "Concrete dropout",
    "bernoulli": "learnable Bernoulli dropout",
    "ensemble": "ensemble with prior functions",
    "linear": "linear, exact",
    "neural linear": "NeuralLinear",
    "greedy": "greedy",
}
RIMS = (0.5, 0.7, 0.9, 0.95, 0.99)
SHORT = {"mushroom": "mushrooms", **{f"wheel {rim}": f"wheel, δ = {rim}" for rim in RIMS}}
LONG = {f"long wheel {rim}": f"long wheel, δ = {rim}" for rim in RIMS}
PROBLEMS = {**SHORT, **LONG}
PUBLISHED: dict[str, dict[str, float]] = {
    "mushroom": {
        "bayes": 24.41, "dropout": 12.53, "ensemble": 13.44, "linear": 14.71,
        "neural linear": 16.56, "greedy": 15.29,
    },
    "long wheel 0.5": {"neural linear": 0.95, "dropout": 7.89, "bayes": 1.37},
    "long wheel 0.7": {"neural linear": 1.60, "dropout": 9.03, "bayes": 3.32},
    "long wheel 0.9": {"neural linear": 4.65, "dropout": 36.6, "bayes": 34.4},
    "long wheel 0.95": {"neural linear": 9.56, "dropout": 63.1, "bayes": 59.0},
    "long wheel 0.99": {"neural linear": 49.63, "dropout": 98.7, "bayes": 97.4},
}  # fmt: skip
SOURCE = (
    "Published: mushrooms, 2,000 steps, from Wen et al. 2020 (BatchEnsemble, table 3; an ensemble "
    "of four) and Sun et al. 2019 (functional variational BNNs; greedy is their RMS); wheel from "
    "Riquelme et al. 2018, whose streams we take to have 80,000 contexts."
)
