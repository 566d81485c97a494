"""Data sets: found in ``DUBIO_DATA`` or in a cache, else downloaded, and always verified.

Every loader returns a small value with tensors, and a ``source`` that says which form of the data
it has read, where it lies, and how it differs from the original. Files are compared with their
published checksums before they are used. Archives are read in memory: nothing is extracted.
"""

from dubio.data.amino_acids import AminoAcids, qspr
from dubio.data.cifar import cifar10, cifar10_small
from dubio.data.curves import (
    Extrapolation,
    Interpolation,
    MonthlyCO2,
    YearlyIrradiance,
    co2,
    co2_monthly,
    solar,
    solar_yearly,
)
from dubio.data.digits import Images, fashion_mnist, mnist, notmnist
from dubio.data.errors import DataError
from dubio.data.interactions import (
    UserItems,
    UserItemSplit,
    citeulike_a,
    gowalla,
    movielens_diffrec,
    movielens_infinite_ae,
    yelp2018,
)
from dubio.data.inventory import Holding, Inventory, available, fetch_original
from dubio.data.large_ratings import Plays, million_song, netflix
from dubio.data.mushrooms import Categories, mushroom
from dubio.data.ratings import (
    HeldOutUsers,
    Movie,
    Ratings,
    User,
    movielens,
    movielens_movies,
    movielens_split,
    movielens_users,
)
from dubio.data.reviews import Reviews, amazon, amazon_selected, amazon_unlabeled
from dubio.data.scenes import Scenes, camvid, camvid_sample
from dubio.data.tables import UCI_NAMES, Regression, Split, uci
from dubio.data.weights import Weights, imagenet_weights

__all__ = [
    "UCI_NAMES",
    "AminoAcids",
    "Categories",
    "DataError",
    "Extrapolation",
    "HeldOutUsers",
    "Holding",
    "Images",
    "Interpolation",
    "Inventory",
    "MonthlyCO2",
    "Movie",
    "Plays",
    "Ratings",
    "Regression",
    "Reviews",
    "Scenes",
    "Split",
    "User",
    "UserItemSplit",
    "UserItems",
    "Weights",
    "YearlyIrradiance",
    "amazon",
    "amazon_selected",
    "amazon_unlabeled",
    "available",
    "camvid",
    "camvid_sample",
    "cifar10",
    "cifar10_small",
    "citeulike_a",
    "co2",
    "co2_monthly",
    "fashion_mnist",
    "fetch_original",
    "gowalla",
    "imagenet_weights",
    "million_song",
    "mnist",
    "movielens",
    "movielens_diffrec",
    "movielens_infinite_ae",
    "movielens_movies",
    "movielens_split",
    "movielens_users",
    "mushroom",
    "netflix",
    "notmnist",
    "qspr",
    "solar",
    "solar_yearly",
    "uci",
    "yelp2018",
]
