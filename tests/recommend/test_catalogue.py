"""External ids, and data frames in and out."""

from typing import Any

import numpy as np
import pandas
import pytest

from dubio.recommend import Catalogue, Ids, Popular, by_time, from_frame

FRAME = pandas.DataFrame(
    {
        "user": ["ann", "bob", "ann", "cem", "bob", "ann"],
        "item": [30, 10, 20, 10, 10, 30],
        "rating": [5, 4, 2, 3, 5, 1],
        "time": [60, 50, 40, 30, 20, 10],
    }
)


def naive(frame: pandas.DataFrame) -> tuple[list[Any], list[Any], dict[tuple[Any, Any], int]]:
    """Users and items as they come, and the first time of each pair."""
    users, items, first = [], [], {}
    for row in frame.itertuples():
        users += [] if row.user in users else [row.user]
        items += [] if row.item in items else [row.item]
        pair = (row.user, row.item)
        first[pair] = min(first.get(pair, row.time), row.time)
    return users, items, first


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", ["int", "str", "tuple", "mixed"])
def test_a_frame_equals_a_loop(seed: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    numbers = rng.integers(-8, 8, 60).tolist()
    ids = {
        "int": numbers,
        "str": [str(number) for number in numbers],
        "tuple": [(number, "x") for number in numbers],
        "mixed": [number if number % 2 else str(number) for number in numbers],
    }[kind]
    frame = pandas.DataFrame({"user": rng.integers(0, 9, 60), "item": ids, "time": rng.random(60)})
    users, items, first = naive(frame)
    found = from_frame(frame, time="time")
    assert list(found.catalogue.users) == users
    assert list(found.catalogue.items) == items
    coo = found.user_items.tocoo()
    assert found.times is not None
    pairs = {
        (users[u], items[i]): time for u, i, time in zip(coo.row, coo.col, found.times, strict=True)
    }
    assert pairs == first
    assert found.user_items.nnz == len(first)
    assert (found.user_items.data == 1).all()


def test_ratings_below_are_left_out_with_their_users_and_items() -> None:
    found = from_frame(FRAME, rating="rating", at_least=4)
    assert list(found.catalogue.users) == ["ann", "bob"]
    assert list(found.catalogue.items) == [30, 10]
    np.testing.assert_array_equal(found.user_items.toarray(), [[1, 0], [0, 1]])
    assert found.times is None


def test_missing_ratings_are_left_out() -> None:
    frame = pandas.DataFrame({"user": [1, 2], "item": [1, 2], "rating": [np.nan, 5.0]})
    assert list(from_frame(frame, rating="rating", at_least=4).catalogue.users) == [2]


def test_columns_of_a_dict_are_a_frame() -> None:
    found = from_frame({"user": [1, 1], "item": ["a", "b"]})
    np.testing.assert_array_equal(found.user_items.toarray(), [[1, 1]])


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_dates_stay_dates_in_utc(zone: str | None) -> None:
    dates = pandas.to_datetime(["1970-01-02 00:00:00", "1970-01-01 00:00:05"]).tz_localize("UTC")
    dates = dates.tz_convert(zone) if zone else dates.tz_localize(None)
    found = from_frame({"user": [0, 1], "item": [0, 0], "time": pandas.Series(dates)}, time="time")
    assert found.times is not None
    expected = np.array(["1970-01-02T00:00:00", "1970-01-01T00:00:05"], "datetime64[ns]")
    np.testing.assert_array_equal(found.times, expected)


def test_new_users_with_the_items_of_a_model() -> None:
    known = from_frame(FRAME).catalogue.items
    found = from_frame({"user": ["dia"], "item": [20]}, items=known)
    np.testing.assert_array_equal(found.user_items.toarray(), [[0, 0, 1]])
    with pytest.raises(KeyError, match="items: expected ids of the catalogue, got 77, 78, which"):
        from_frame({"user": ["dia"] * 3, "item": [20, 77, 78]}, items=known)


def test_recommendations_by_external_ids() -> None:
    found = from_frame(FRAME)
    model = Popular().fit(found.user_items)
    model.catalogue = found.catalogue
    table = model.recommend(found.user_items, 2, users=list(found.catalogue.users)).to_frame()
    rows = table[["user", "item", "rank"]].to_records(index=False).tolist()
    assert rows == [("ann", 10, 1), ("bob", 30, 1), ("bob", 20, 2), ("cem", 30, 1), ("cem", 20, 2)]
    np.testing.assert_allclose(table["score"], [2 / 3, 1 / 3, 1 / 3, 1 / 3, 1 / 3], rtol=1e-6)
    assert (table["spread"] == 0).all()


def test_positions_without_a_catalogue() -> None:
    found = from_frame(FRAME)
    table = Popular().fit(found.user_items).recommend(found.user_items, 1).to_frame()
    assert table["user"].tolist() == [0, 1, 2]
    assert table["item"].tolist() == [1, 0, 0]


class TestRefused:
    def test_unknown_ids_name_the_first_few(self) -> None:
        with pytest.raises(KeyError, match=r"got 1, 2, 3, 4, 5 and 4 more, which"):
            Ids(["a"]).positions([*range(1, 10), 9, "a"])

    def test_the_same_id_twice(self) -> None:
        with pytest.raises(ValueError, match="got 3 of which 2 are different"):
            Ids(["a", "b", "a"])

    def test_positions_out_of_range(self) -> None:
        with pytest.raises(IndexError, match=r"from 0 to 1, or −1 for none, got \[-2, 2\]"):
            Ids(["a", "b"]).ids([-2, -1, 0, 2])

    def test_a_column_that_is_not_there(self) -> None:
        with pytest.raises(KeyError, match=r"movie: expected a column of this name, got .*'item'"):
            from_frame(FRAME, item="movie")

    @pytest.mark.parametrize("empty", [None, np.nan])
    def test_an_empty_id(self, empty: object) -> None:
        with pytest.raises(ValueError, match="user: expected an id in every row, got 1 empty"):
            from_frame({"user": np.array(["a", empty], object), "item": [1, 2]})

    def test_a_rating_without_a_least_value(self) -> None:
        with pytest.raises(ValueError, match="at_least: expected a rating and its least value"):
            from_frame(FRAME, rating="rating")

    def test_times_with_gaps(self) -> None:
        for times in ([1.0, np.nan], pandas.to_datetime(pandas.Series(["1970-01-02", None]))):
            with pytest.raises(ValueError, match="time: expected numbers or dates without gaps"):
                from_frame({"user": [0, 1], "item": [0, 0], "time": times}, time="time")

    def test_a_catalogue_of_other_items(self) -> None:
        model = Popular().fit(from_frame(FRAME).user_items)
        with pytest.raises(ValueError, match="ids of the 3 items of the model, got 1"):
            model.catalogue = Catalogue(Ids([]), Ids([1]))
        early = Popular()
        early.catalogue = Catalogue(Ids([]), Ids([1]))
        with pytest.raises(ValueError, match="ids of the 3 items of the model, got 1"):
            early.fit(from_frame(FRAME).user_items).recommend(from_frame(FRAME).user_items)


def test_events_of_one_second_keep_their_order() -> None:
    later = pandas.to_timedelta(np.arange(10)[::-1] * 50, unit="ms")
    moments = pandas.Timestamp("2021-01-01") + later
    frame = pandas.DataFrame({"user": 0, "item": np.arange(10), "at": moments})
    seen = from_frame(frame, time="at")
    assert seen.times is not None
    parts = by_time(seen.user_items, seen.times, 0.0, 0.1, per_user=True)
    assert parts.test_held_out.indices.tolist() == [0]  # the last event


def test_a_least_rating_of_nan_is_an_error() -> None:
    frame = pandas.DataFrame({"user": [1, 2], "item": [3, 4], "stars": [4, 5]})
    with pytest.raises(ValueError, match="at_least: expected"):
        from_frame(frame, rating="stars", at_least=np.nan)


def test_ids_of_lists_stay_as_they_are() -> None:
    found = from_frame({"user": [("a", 1), ("a", 1)], "item": [1, "1"]})
    assert list(found.catalogue.users) == [("a", 1)]
    assert list(found.catalogue.items) == [1, "1"]


def test_unknown_items_and_users_are_skipped_if_asked_to() -> None:
    """A user of whom nothing is left has an empty history; with known users there are no others."""
    table = {"user": ["a", "b", "a", "c"], "item": [1, 9, 2, 8]}
    known = Ids([2, 1], "item")
    found = from_frame(table, items=known, unknown="skip")
    assert found.user_items.toarray().tolist() == [[1, 1], [0, 0], [0, 0]]
    assert list(found.catalogue.users) == ["a", "b", "c"]
    users = Ids(["c", "a"], "user")
    more = {"user": [*table["user"], "d"], "item": [*table["item"], 1]}
    found = from_frame(more, items=known, users=users, unknown="skip")
    assert found.user_items.toarray().tolist() == [[0, 0], [1, 1]]
    with pytest.raises(KeyError, match="users: expected ids of the catalogue, got 'b'"):
        from_frame(table, users=users)
