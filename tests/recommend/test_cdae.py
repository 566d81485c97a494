"""CDAE, which knows the users of its training."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array, vstack

from dubio.recommend import CDAE, evaluate
from dubio.recommend.sparse import SparseRows
from taste_groups import taste_groups

DATA = taste_groups()
QUICK = {"epochs": 12, "batch_size": 50, "progress": False, "learning_rate": 5e-3}


class TestCDAE:
    model = CDAE(24).fit(DATA.train, **{**QUICK, "epochs": 80})

    def test_a_user_of_the_training(self):
        shown = DATA.train[5:8]
        found = self.model.recommend(shown, 5, users=[5, 6, 7])
        assert (found.ids >= 0).all()
        other = self.model.recommend(shown, 5, users=[7, 6, 5], generator=0)
        assert (found.scores[0] != other.scores[0]).any()

    def test_new_users(self):
        with pytest.raises(ValueError, match="−1 for a new user"):
            self.model.recommend(DATA.fold_in)
        with pytest.raises(ValueError, match="cannot fold in"):
            self.model.recommend(DATA.fold_in[:2], users=[0, 200])
        found = self.model.recommend(DATA.fold_in[1:3], 5, users=[-1, -1], draws=0)
        network = self.model._network
        a = network.input.once(SparseRows.of(DATA.fold_in[1:3]), ())
        expected = network.output(torch.sigmoid(a)).sigmoid().detach().numpy()
        np.testing.assert_allclose(
            found.scores, np.take_along_axis(expected, found.ids, 1), rtol=1e-5
        )

    def test_it_must_be_told_who_is_evaluated(self):
        held_out = DATA.train[5:8]
        nothing = csr_array(held_out.shape, dtype=np.float32)
        with pytest.raises(ValueError, match="expected the rows of these users"):
            evaluate(self.model, nothing, held_out)
        with pytest.raises(ValueError, match="an id for each of the 3 rows"):
            evaluate(self.model, nothing, held_out, users=[5, 6])
        known, other = (
            evaluate(self.model, nothing, held_out, ["ndcg@10"], users=users, draws=0)["ndcg@10"]
            for users in ([5, 6, 7], [-1, -1, -1])
        )
        assert known != other

    def test_others_than_the_users_of_the_training_cannot_validate(self):
        with pytest.raises(ValueError, match="cannot be validated on others"):
            CDAE(24).fit(DATA.train, (DATA.fold_in, DATA.held_out), **QUICK)

    def test_similar_items_and_files(self, tmp_path):
        found = self.model.similar_items([15], 3)
        assert set(found.ids[0]) <= set(range(10, 20))
        self.model.save(tmp_path / "m")
        again = CDAE.load(tmp_path / "m")
        np.testing.assert_array_equal(again.similar_items([15], 3).ids, found.ids)


def test_the_embedding_of_a_cdae_knows_who_the_user_is():
    model = CDAE(hidden=8).fit(DATA.train, **{**QUICK, "epochs": 20, "learning_rate": 0.05})
    same = csr_array(vstack([DATA.train[1:2], DATA.train[1:2]]))
    found = model.embed(same, users=[0, 1])
    assert not np.allclose(found[0], found[1])


def test_new_users_of_a_cdae_explore_on_their_own():
    """New users are negative numbers, and each number has its own noise, as every id has."""
    model = CDAE(hidden=8).fit(DATA.train, **{**QUICK, "epochs": 10, "learning_rate": 0.02})
    same = csr_array(vstack([DATA.train[1:2]] * 20))
    found = model.recommend(same, n=5, users=-1 - np.arange(20), explore="thompson")
    assert len(np.unique(found.ids, axis=0)) > 1
    with pytest.raises(ValueError, match="got 20 users with 1 numbers, who would share"):
        model.recommend(same, n=5, users=[-1] * 20, explore="thompson")
