"""Films for a new user, each with an uncertainty: from a data frame to titles.

The ratings are a part of MovieLens 1M. (The copy of MovieLens 100k that `dubio.data` reads has no
titles.) Needs pandas.
"""

import pandas as pd
import torch

from dubio import masks, recommend
from dubio.data import movielens, movielens_movies

USERS = 2000  # of 6040: half a minute


def ratings() -> pd.DataFrame:
    """Who gave a film how many stars."""
    titles = {movie.item: movie.title for movie in movielens_movies()}
    given = movielens("1m")
    films = [titles[item] for item in given.item.tolist()]
    frame = pd.DataFrame({"user": given.user.numpy(), "film": films, "stars": given.rating.numpy()})
    return frame[frame["user"] <= USERS]


def main() -> None:
    """Fit, test on users that were held out, and recommend to a newcomer."""
    torch.set_num_threads(1)
    liked = recommend.from_frame(ratings(), item="film", rating="stars", at_least=4)
    parts = recommend.by_users(liked.user_items, validation=200, test=200, seed=0)
    model = recommend.VAE(
        hidden=200, latent=50, mask=masks.LearnableBernoulli, mixture=3, anneal=2000
    )
    model.fit(parts.train, parts.validation, epochs=25, batch_size=100, learning_rate=3e-3)
    print(recommend.evaluate(model, *parts.test), "\n")

    films = recommend.Ids(liked.catalogue.items.ids(parts.items), "film")
    model.catalogue = recommend.Catalogue(liked.catalogue.users, films)
    favourites = ["Alien (1979)", "Blade Runner (1982)", "Terminator, The (1984)"]
    newcomer = pd.DataFrame({"user": "newcomer", "film": favourites})
    history = recommend.from_frame(newcomer, item="film", items=films).user_items
    for explore in ("mean", "thompson"):
        found = model.recommend(history, n=8, explore=explore, draws=50, users=["newcomer"])
        print(f"By {explore}, after {', '.join(favourites)}:")
        print(found.to_frame().drop(columns="user").to_string(index=False), "\n")


if __name__ == "__main__":
    main()
