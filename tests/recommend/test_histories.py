"""Matrices of interactions: what is read, what is refused, and that nothing of it is changed."""

import numpy as np
import pandas
import pytest
from scipy.sparse import coo_array, csc_array, csr_array, csr_matrix, dok_array

from dubio.recommend import histories

DENSE = np.array([[1, 0, 3], [0, 0, 0], [0, 2, 5]])


@pytest.mark.parametrize("form", [csr_array, csr_matrix, csc_array, coo_array, dok_array])
@pytest.mark.parametrize("kind", ["float32", "float64", "int64", "uint8", "bool"])
def test_every_form_becomes_binary(form: type, kind: str) -> None:
    found = histories(form(DENSE.astype(kind)))
    assert isinstance(found, csr_array)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found.toarray(), DENSE > 0)


def test_duplicates_are_one_interaction_and_stored_zeros_none() -> None:
    given = coo_array(([1.0, 2.0, 0.0, 0.5], ([0, 0, 1, 1], [2, 2, 0, 1])), shape=(2, 3))
    found = histories(given)
    assert found.nnz == 2
    np.testing.assert_array_equal(found.toarray(), [[0, 0, 1], [0, 1, 0]])


def test_indices_are_sorted_and_the_given_matrix_stays() -> None:
    given = csr_array((np.array([2.0, 0.0, 3.0, 4.0]), [2, 1, 0, 0], [0, 2, 4]), shape=(2, 3))
    before = (given.data.copy(), given.indices.copy(), given.indptr.copy())
    found = histories(given)
    np.testing.assert_array_equal(found.indices, [2, 0])
    for now, then in zip((given.data, given.indices, given.indptr), before, strict=True):
        np.testing.assert_array_equal(now, then)
    found.data[:] = 7
    found.indices[:] = 0
    np.testing.assert_array_equal(given.indices, before[1])


def test_no_users_and_no_entries() -> None:
    assert histories(csr_array((0, 4))).shape == (0, 4)
    assert histories(csr_array((3, 4))).nnz == 0


class TestRefused:
    def test_dense(self) -> None:
        with pytest.raises(TypeError, match=r"got ndarray; give scipy\.sparse\.csr_array\(x\)"):
            histories(DENSE)

    def test_a_frame(self) -> None:
        with pytest.raises(TypeError, match=r"got DataFrame; give .*from_frame"):
            histories(pandas.DataFrame({"user": [1]}))

    def test_another_number_of_items(self) -> None:
        with pytest.raises(ValueError, match=r"with 5 columns.*got shape \(3, 4\); build it"):
            histories(csr_array((3, 4)), items=5)

    def test_items_by_users(self) -> None:
        with pytest.raises(ValueError, match=r"fold_in: .*got shape \(5, 4\); transpose it"):
            histories(csr_array((5, 4)), items=5, name="fold_in")

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    def test_not_finite(self, bad: float) -> None:
        with pytest.raises(ValueError, match="got 1 that are NaN or infinite"):
            histories(csr_array([[1.0, bad]]))

    def test_negative_even_if_a_duplicate_makes_up_for_it(self) -> None:
        given = coo_array(([-1.0, 3.0], ([0, 0], [0, 0])), shape=(1, 2))
        with pytest.raises(ValueError, match=r"got 1 below, such as -1\.0"):
            histories(given)

    def test_complex(self) -> None:
        with pytest.raises(TypeError, match="expected real numbers, got complex128"):
            histories(csr_array([[1j]]))

    def test_one_dimension(self) -> None:
        with pytest.raises(ValueError, match="expected two dimensions"):
            histories(coo_array([1.0, 2.0]))


def test_duplicates_of_small_integers_are_still_an_interaction() -> None:
    """200 + 56 is 0 in uint8."""
    counts = coo_array((np.array([200, 56], np.uint8), ([0, 0], [0, 0])), shape=(1, 2))
    assert histories(counts).toarray().tolist() == [[1.0, 0.0]]
