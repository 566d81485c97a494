"""Users of two kinds, who like even or odd items: data for tests of what surrounds a model."""

import numpy as np
from scipy.sparse import csr_array

from dubio import recommend

USERS, ITEMS = 60, 20
QUICK = {"epochs": 2, "batch_size": 20, "progress": False}


def tastes(users=USERS, seed=0):
    rng = np.random.default_rng(seed)
    alike = np.arange(users)[:, None] % 2 == np.arange(ITEMS) % 2
    return csr_array((rng.random((users, ITEMS)) < np.where(alike, 0.3, 0.04)).astype(np.float32))


DATA = tastes()
SOME = DATA[:4]
PARTS = recommend.by_users(DATA, 10, 10, at_least=2, held_out=0.5)


def vae(**settings):
    return recommend.VAE(**{"hidden": 8, "latent": 4, "anneal": 10, **settings})


def scores(model):
    return model.recommend(SOME, n=5, draws=0).scores
