"""Several threads ask one model at the same time."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from dubio import masks
from even_and_odd import DATA, QUICK, vae


class Meeting:
    """Two threads inside of the mask at the same time: the first leaves it before the second."""

    def __init__(self):
        self.both, self.first_is_done = threading.Event(), threading.Event()
        self.inside = threading.Semaphore(1)

    def __call__(self):
        if self.inside.acquire(blocking=False):
            self.both.wait(1)  # a library with a lock goes on after a second
        else:
            self.both.set()
            self.first_is_done.wait(1)


@pytest.mark.parametrize("kind", [masks.LearnableBernoulli, masks.Concrete, masks.Bernoulli])
def test_threads_get_what_one_thread_gets_and_leave_the_model_alone(kind):
    """Rates are laid out by entry in a copy of the mask, never in the mask itself."""

    class Slow(kind):
        meet = staticmethod(lambda: None)

        def multiplier(self, axis, *noises):
            type(self).meet()
            return super().multiplier(axis, *noises)

    model = vae(mask=Slow)
    model.fit(DATA, **{**QUICK, "epochs": 20, "learning_rate": 0.02, "rate_learning_rate": 0.1})
    lengths = np.diff(DATA.indptr)
    one, two = np.flatnonzero(lengths == 4)[:2]  # of equal lengths, so that no shape is wrong
    keep = model.keep.copy()
    expected = [model.recommend(DATA[[user]], draws=1, users=[0]).scores for user in (one, two)]

    meeting = Meeting()
    Slow.meet = staticmethod(meeting)
    found = {}

    def ask(user):
        found[user] = model.recommend(DATA[[user]], draws=1, users=[0]).scores

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(ask, one)
        time.sleep(0.1)
        second = pool.submit(ask, two)
        first.result()
        meeting.first_is_done.set()
        second.result()
    Slow.meet = staticmethod(lambda: None)
    np.testing.assert_array_equal(model.keep, keep)
    np.testing.assert_array_equal(found[one], expected[0])
    np.testing.assert_array_equal(found[two], expected[1])
