"""EASE and Mult-VAE on published splits, beside the published numbers.

    python benchmarks/recommend_published.py ease gowalla --weight-decay 80
    python benchmarks/recommend_published.py vae gowalla --checkpoint gowalla.ckpt

Recall@20 is over all held-out items and NDCG@20 beside, with standard errors over users. An EASE
solve of Gowalla takes 35 minutes of one core and 7.4 GB; Mult-VAE takes 30 epochs of 45 s with
products in bfloat16. Settings of Mult-VAE were chosen on a tenth of the training interactions of
Gowalla (β = 0.4 against 1.0), and used for Yelp 2018 as they are. The test part is read once.
"""

import argparse
import time

from dubio import data, recommend

PUBLISHED = {  # by BARS, for the splits of LightGCN
    ("ease", "gowalla"): (0.1765, 0.1467),
    ("vae", "gowalla"): (0.1641, 0.1335),
    ("ease", "yelp2018"): (0.0657, 0.0552),
    ("vae", "yelp2018"): (0.0584, 0.0450),
}
METRICS = ("recall_all@20", "ndcg@20")


def fitted(arguments: argparse.Namespace, train: object) -> recommend.Recommender:
    if arguments.model == "ease":
        return recommend.EASE(arguments.weight_decay).fit(train)
    model = recommend.VAE(beta=arguments.beta, anneal=0)
    return model.fit(
        train,
        epochs=arguments.epochs,
        learning_rate=2e-3,
        schedule="cosine",
        precision=arguments.precision,
        seed=arguments.seed,
        checkpoint=arguments.checkpoint,
        save_every=300,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=["ease", "vae"])
    parser.add_argument("split", choices=["gowalla", "yelp2018"])
    parser.add_argument("--weight-decay", type=float, default=80.0)
    parser.add_argument("--beta", type=float, default=0.4)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--precision", choices=["float32", "bfloat16"], default="bfloat16")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--checkpoint")
    arguments = parser.parse_args()
    split = getattr(data, arguments.split)()
    started = time.perf_counter()
    model = fitted(arguments, split.train)
    print(f"fitted in {time.perf_counter() - started:.0f} s")
    found = recommend.evaluate(model, split.train, split.test, METRICS, draws=0)
    published = PUBLISHED[arguments.model, arguments.split]
    for metric, number in zip(METRICS, published, strict=True):
        score = found.scores[metric]
        print(f"{metric}: {score.mean:.4f} ± {score.standard_error:.4f}, published {number:.4f}")


if __name__ == "__main__":
    main()
