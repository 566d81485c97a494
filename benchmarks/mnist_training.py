"""How long networks of the MNIST studies take to learn, epoch by epoch.

784-h-h-10 by `dubio.fit`, with the recipe of the studies of Clark et al. 2022: bytes made into
numbers batch by batch, fused Adam, test error after each epoch. Methods take turns, an epoch each.
Wall time, the fastest epoch; and how long so many epochs take at that pace. Needs MNIST, see
docs/data.md.
"""

import argparse
from functools import partial

import torch
from torch.optim import Adam

import dubio
from dubio_studies.clark2022.digits import BAYESIAN, Method, Networks
from dubio_studies.mnist.training import wrong

TARGET = 15.0  # minutes for 100 epochs of the Gaussian prior with 400 units on two threads


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3, help="epochs of each method")
    parser.add_argument("--epochs", type=int, default=100, help="the time of how many to report")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    settings = Networks()
    digits = settings.digits()
    methods: tuple[Method, ...] = ("gaussian", "mixture", "dropout", "plain")
    objectives = {
        method: dubio.ELBO(
            settings.network(method, options.width),
            dubio.likelihoods.Categorical(),
            num_data=len(digits.train),
        )
        for method in methods
    }
    seconds: dict[str, list[float]] = {method: [] for method in methods}
    for _ in range(options.rounds):
        for method, objective in objectives.items():
            bayesian = method in BAYESIAN
            history = dubio.fit(
                objective,
                (digits.train, digits.train_labels),
                epochs=1,
                batch_size=settings.batch_size if bayesian else 128,
                optimizer=partial(Adam, lr=1e-3, fused=True),
                validate=lambda o=objective: wrong(o.model(digits.test), digits.test_labels),
            )
            seconds[method].append(history[-1].seconds)
    print(f"torch {torch.__version__}, threads: {options.threads}, units: {options.width}")
    for method, times in seconds.items():
        minutes = min(times) * options.epochs / 60
        note = ""
        if (method, options.width, options.epochs, options.threads) == ("gaussian", 400, 100, 2):
            note = f"   <= {TARGET:g} {'reached' if minutes <= TARGET else 'NOT reached'}"
        print(
            f"{method:10} {min(times):6.2f} s an epoch, {options.epochs} in {minutes:.1f} min{note}"
        )


if __name__ == "__main__":
    main()
