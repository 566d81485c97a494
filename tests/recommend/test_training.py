"""The training loop: seeds, checkpoints, interruptions, validation, two processes."""

import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from dubio import masks
from dubio.recommend import DAE, VAE, autoencoder
from dubio.recommend.keyed_noise import draw_seeds, user_keys
from dubio.recommend.sparse import SparseRows
from dubio.recommend.training_plan import TrainingPlan
from dubio.recommend.variational import VariationalNetwork
from dubio.recommend.weights import initialise
from dubio.training.checkpoint import CheckpointError
from dubio.training.guard import NonFiniteError
from taste_groups import taste_groups

DATA = taste_groups()
VALIDATION = (DATA.fold_in, DATA.held_out)
QUICK = {"batch_size": 50, "progress": False}


def sivae():
    return VAE(16, 4, masks.LearnableBernoulli, mixture=2, anneal=50)


def state_of(model):
    return {name: tensor.clone() for name, tensor in model._state().items()}


def assert_same(one, other):
    assert one.keys() == other.keys()
    for name in one:
        assert torch.equal(one[name], other[name]), name


def test_learning_rates_fall_along_a_cosine(monkeypatch):
    seen = []
    step = torch.optim.Adam.step

    def noted(self, *given, **named):
        seen.append([group["lr"] for group in self.param_groups])
        return step(self, *given, **named)

    monkeypatch.setattr(torch.optim.Adam, "step", noted)
    sivae().fit(DATA.train, epochs=3, schedule="cosine", learning_rate=0.1, **QUICK)
    oracle = torch.optim.SGD(
        [{"params": [torch.nn.Parameter(torch.zeros(1))], "lr": rate} for rate in (0.1, 1e-2)]
    )
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(oracle, len(seen))
    for main, biases, rates in seen:
        now = falling.get_last_lr()
        assert (main, biases, rates) == pytest.approx((now[0], now[0], now[1]), abs=1e-12)
        oracle.step()
        falling.step()


def test_a_narrow_product_is_close_to_the_wide_one():
    wide, narrow = (
        sivae().fit(DATA.train, epochs=4, precision=precision, learning_rate=1e-2, **QUICK)
        for precision in ("float32", "bfloat16")
    )
    assert narrow._network.output.weight.dtype == torch.float32
    assert narrow.history[-1].loss == pytest.approx(wide.history[-1].loss, rel=0.01)
    assert not torch.equal(narrow._network.output.weight, wide._network.output.weight)


@pytest.mark.parametrize(("name", "value"), [("schedule", "linear"), ("precision", "float16")])
def test_only_known_words_are_taken(name, value):
    with pytest.raises(ValueError, match=f"{name}: expected one of .*, .*, got '{value}'"):
        sivae().fit(DATA.train, epochs=1, **{name: value}, **QUICK)


def test_the_same_seed_gives_the_same_bits():
    one, two, other = (
        state_of(sivae().fit(DATA.train, epochs=2, seed=seed, **QUICK)) for seed in (3, 3, 4)
    )
    assert_same(one, two)
    assert not torch.equal(one["encoder.weight"], other["encoder.weight"])


class KilledError(Exception):
    """Like a process that dies: no clean-up of the run is relied on."""


@pytest.mark.parametrize("after", [1, 3, 4, 7])
def test_a_run_that_stops_anywhere_goes_on_to_the_same_bits(after, tmp_path, monkeypatch):
    whole = sivae().fit(DATA.train, VALIDATION, epochs=3, **QUICK)
    options = {"checkpoint": tmp_path / "run", "save_every": 0.0, "epochs": 3, **QUICK}
    steps = autoencoder.TrainingRun.steps

    def some_steps(run):
        for loss in steps(run):
            nonlocal after
            after -= 1
            if after == 0:
                raise KilledError
            yield loss

    monkeypatch.setattr(autoencoder.TrainingRun, "steps", some_steps)
    with pytest.raises(KilledError):
        sivae().fit(DATA.train, VALIDATION, **options)
    monkeypatch.undo()
    again = sivae().fit(DATA.train, VALIDATION, **options)
    assert_same(state_of(whole), state_of(again))
    assert whole.history == again.history
    finished = sivae().fit(DATA.train, VALIDATION, **options)  # nothing left to do
    assert_same(state_of(whole), state_of(finished))


PROGRAM = """
import sys
from taste_groups import taste_groups
from dubio import masks
from dubio.recommend import VAE
data = taste_groups()
print("start", flush=True)
VAE(16, 4, masks.LearnableBernoulli, mixture=2, anneal=50).fit(
    data.train, (data.fold_in, data.held_out), epochs=400, patience=400, batch_size=50,
    checkpoint=sys.argv[1], save_every=0.0, progress=False)
"""


def test_a_killed_process_leaves_a_checkpoint_that_goes_on(tmp_path):
    path = tmp_path / "run"
    folder = str(Path(__file__).parent.parent)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([folder, *sys.path])}
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(path)], env=environment, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    while not path.exists() and process.poll() is None:
        pass
    try:
        process.wait(1.0)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
    process.stdout.close()
    assert process.returncode == -signal.SIGKILL
    state = torch.load(path, weights_only=True)
    done = len(state["history"])
    model = VAE(16, 4, masks.LearnableBernoulli, mixture=2, anneal=50)
    options = {"epochs": 400, "patience": 400, "checkpoint": path, **QUICK}
    with pytest.MonkeyPatch.context() as patch:  # two more epochs will do
        patch.setattr(
            autoencoder.TrainingRun, "finished", property(lambda run: len(run.history) >= done + 2)
        )
        model.fit(DATA.train, VALIDATION, **options)
        alone = sivae().fit(DATA.train, VALIDATION, epochs=400, patience=400, **QUICK)
    assert [epoch.loss for epoch in model.history] == [epoch.loss for epoch in alone.history]
    assert_same(state_of(model), state_of(alone))


def test_an_interrupt_leaves_the_best_model(tmp_path, monkeypatch):
    steps = autoencoder.TrainingRun.steps

    def interrupted(run):
        for count, loss in enumerate(steps(run)):
            if run.epoch == 3 and count == 1:
                os.kill(os.getpid(), signal.SIGINT)
            yield loss

    monkeypatch.setattr(autoencoder.TrainingRun, "steps", interrupted)
    model = sivae()
    options = {"epochs": 5, "checkpoint": tmp_path / "run", **QUICK}
    with pytest.raises(KeyboardInterrupt):
        model.fit(DATA.train, VALIDATION, **options)
    monkeypatch.undo()
    assert len(model.history) == 2
    reached = autoencoder.evaluate(model, *VALIDATION, ["ndcg@100"], draws=0)["ndcg@100"]
    assert reached == model.best_epoch.validation == max(e.validation for e in model.history)
    whole = sivae().fit(DATA.train, VALIDATION, epochs=5, **QUICK)
    assert_same(state_of(whole), state_of(model.fit(DATA.train, VALIDATION, **options)))


def test_a_checkpoint_of_another_run_is_an_error(tmp_path):
    options = {"checkpoint": tmp_path / "run", **QUICK}
    sivae().fit(DATA.train, epochs=1, **options)
    with pytest.raises(CheckpointError, match="epochs 1 there and 2 here"):
        sivae().fit(DATA.train, epochs=2, **options)
    with pytest.raises(CheckpointError, match="user_items"):
        sivae().fit(DATA.train[:100], epochs=1, **options)


def test_the_best_weights_are_kept(monkeypatch):
    values = iter([0.1, 0.3, 0.2, 0.3, 0.1, 0.5])
    states = []

    def validate(model, *parts):
        states.append(state_of(model))
        return next(values)

    monkeypatch.setattr(autoencoder.Autoencoder, "_validate", validate)
    model = sivae().fit(DATA.train, VALIDATION, epochs=9, patience=3, **QUICK)
    assert [epoch.validation for epoch in model.history] == [0.1, 0.3, 0.2, 0.3, 0.1]
    assert model.best_epoch.epoch == 2
    assert_same(state_of(model), states[1])


def test_validation_is_ndcg_without_noise():
    model = sivae().fit(DATA.train, VALIDATION, epochs=2, **QUICK)
    reached = autoencoder.evaluate(model, *VALIDATION, ["ndcg@100"], draws=0)["ndcg@100"]
    assert reached == model.best_epoch.validation


def test_beta_rises_to_its_cap():
    plan = TrainingPlan(5, 50, 1e-3, 1e-2, 0.0, 5, beta=0.2, anneal=100, seed=0)
    assert [plan.beta_at(step) for step in (0, 10, 20, 50)] == [0.0, 0.1, 0.2, 0.2]
    at_once = TrainingPlan(5, 50, 1e-3, 1e-2, 0.0, 5, beta=0.2, anneal=0, seed=0)
    assert at_once.beta_at(0) == 0.2
    model = VAE(16, 4, beta="validate", anneal=16).fit(DATA.train, VALIDATION, epochs=6, **QUICK)
    betas = [epoch.beta for epoch in model.history]
    assert betas == pytest.approx([3 / 16, 7 / 16, 11 / 16, 15 / 16, 1, 1])
    assert model.best_epoch.beta in betas


def test_leaks_are_found():
    whole = DATA.fold_in + DATA.held_out
    with pytest.raises(ValueError, match="that the training does not see"):
        sivae().fit(whole, VALIDATION, epochs=1, **QUICK)
    mixed = DATA.train.copy()
    mixed = autoencoder.csr_array(np.concatenate([mixed.toarray(), whole.toarray()[20:40]]))
    with pytest.raises(ValueError, match="that the training does not see"):
        sivae().fit(mixed, VALIDATION, epochs=1, **QUICK)
    sivae().fit(DATA.fold_in, VALIDATION, epochs=1, **QUICK)  # the same users, split
    with pytest.raises(ValueError, match="of the same users"):
        sivae().fit(DATA.train, (DATA.fold_in, DATA.held_out[:5]), epochs=1, **QUICK)


@pytest.mark.parametrize(
    "options",
    [{"epochs": 0}, {"batch_size": 2.5}, {"learning_rate": -1.0}, {"patience": True}],
    ids=str,
)
def test_wrong_numbers(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        sivae().fit(DATA.train, **options)
    with pytest.raises(ValueError, match="beta"):
        VAE(beta=-1.0).fit(DATA.train)
    with pytest.raises(ValueError, match="'validate'"):
        VAE(beta="best").fit(DATA.train)


def test_a_loss_that_is_not_finite_stops_the_run(monkeypatch):
    model = DAE(8)
    monkeypatch.setattr(
        autoencoder,
        "initialise",
        lambda network, generator: network.output.bias.data.fill_(math.inf),
    )
    with pytest.raises(NonFiniteError, match="epoch 1, step 1"):
        model.fit(DATA.train, epochs=1, **QUICK)


def test_weight_decay_is_a_penalty_on_weights_only():
    """Steps of size zero but for the decay: Adam sees λW in the gradient."""
    plain, decayed = (
        DAE(8, mask=None, weight_decay=decay).fit(DATA.train, epochs=1, **QUICK)
        for decay in (0.0, 10.0)
    )
    assert plain._network.output.weight.norm() > 1.01 * decayed._network.output.weight.norm()


@pytest.mark.parametrize("estimator", ["trapezoid", "arm"])
@pytest.mark.parametrize("mask", [None, masks.Bernoulli, masks.LearnableBernoulli, masks.Concrete])
def test_batches_without_a_single_item(mask, estimator):
    x = np.zeros((6, 5), np.float32)
    x[0, 1:3] = 1
    model = VAE(4, 2, mask, mixture=2 if mask else 1, estimator=estimator)
    model.fit(autoencoder.csr_array(x), epochs=2, batch_size=1, progress=False)
    assert all(tensor.isfinite().all() for tensor in model._state().values())
    assert np.isfinite(model.recommend(autoencoder.csr_array(x), 3, draws=2).scores).all()


def test_a_run_is_that_of_a_dense_loop():
    """The same noise, weights to start from and batches, with dense matrices and plain Adam."""
    model = VAE(16, 4, masks.Bernoulli, drop=0.4, beta=0.3, anneal=0)
    model.fit(DATA.train, epochs=2, seed=5, learning_rate=1e-2, **QUICK)
    network = model._build(40, 200)
    initialise(network, torch.Generator().manual_seed(5))
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    x = torch.from_numpy(DATA.train.toarray())
    for epoch in (1, 2):
        order = np.random.default_rng([5, epoch]).permutation(200)
        for users in np.split(order, 4):
            rows = SparseRows.of(DATA.train[users])
            noise = network.noise(rows, draw_seeds(5, user_keys(users), epoch))
            u = torch.ones(50, 40).index_put((rows.row, rows.items), noise.masks[0][0])
            masked = torch.nn.functional.normalize(x[users]) * (u < 0.6) / 0.6
            hidden = torch.tanh(masked @ network.input.weight + network.input.linear.bias)
            mean, log_variance = network.encoder(hidden).chunk(2, -1)
            eta = mean + torch.exp(log_variance / 2) * noise.latent[0]
            g = network.output(torch.tanh(network.decoder(eta)))
            kl = 0.5 * (log_variance.exp() + mean**2 - 1 - log_variance).sum(1)
            loss = (-(torch.log_softmax(g, 1) * x[users]).sum(1) + 0.3 * kl).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    for name, parameter in network.state_dict().items():
        torch.testing.assert_close(model._state()[name], parameter, rtol=1e-3, atol=1e-4)


# --- two processes -----------------------------------------------------------------------------


def make_network():
    mask = masks.LearnableBernoulli(DATA.train.shape[1], drop=0.5)
    network = VariationalNetwork(DATA.train.shape[1], 16, 4, mask, mixture=2).double()
    initialise(network, torch.Generator().manual_seed(0))
    return network


def noise_in_double(noise):
    return noise._replace(
        masks=tuple(m.double() for m in noise.masks), latent=noise.latent.double()
    )


def gradients_of(network, module, users):
    rows = SparseRows.of(DATA.train[users])
    noise = noise_in_double(network.noise(rows, draw_seeds(0, user_keys(users), 1)))
    module(rows, noise, 0.3).mean().backward()
    return {name: p.grad for name, p in network.named_parameters()}


def one_process(rank, folder):
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    try:
        network = make_network()
        users = np.arange(60)[rank * 30 : (rank + 1) * 30]
        found = gradients_of(network, DistributedDataParallel(network), users)
        if rank == 0:
            torch.save(found, f"{folder}/gradients")
    finally:
        dist.destroy_process_group()


def test_two_processes_have_the_gradients_of_one(tmp_path):
    torch.multiprocessing.spawn(one_process, (str(tmp_path),), nprocs=2)
    network = make_network()
    expected = gradients_of(network, network, np.arange(60))
    found = torch.load(tmp_path / "gradients", weights_only=True)
    for name in expected:
        torch.testing.assert_close(found[name], expected[name])
