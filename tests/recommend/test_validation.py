"""Validation users: kept apart from the training, or with other items than it."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from dubio.recommend.validation import check_validation

USERS = csr_array((np.random.default_rng(0).random((40, 60)) < 0.2).astype(np.float32))


def parts(held: np.ndarray) -> tuple[csr_array, csr_array]:
    """What is shown and what is held out of the users."""
    whole = USERS.toarray()
    return csr_array(whole * ~held), csr_array(whole * held)


def test_held_out_items_that_were_trained_on_are_refused() -> None:
    shown, wanted = parts(np.random.default_rng(1).random(USERS.shape) < 0.3)
    with pytest.raises(ValueError, match="40 of 40 users"):
        check_validation(USERS, (shown, wanted))
    check_validation(shown, (shown, wanted))


def test_users_without_held_out_items_are_no_offence() -> None:
    """Their history is a row of the training, as it should be."""
    held = np.zeros(USERS.shape, bool)
    held[:5] = np.random.default_rng(1).random((5, 60)) < 0.5
    shown, wanted = parts(held)
    check_validation(shown, (shown, wanted))
