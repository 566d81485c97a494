"""Training, validation, prediction, logs and checkpoints by Lightning."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import dubio
from dubio.likelihoods import Categorical

pytest.importorskip("lightning")

from lightning import Callback, Fabric, LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint

from dubio.bridges.lightning import ELBOModule, LogELBO

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*does not have many workers.*",
    "ignore:.*The number of training batches.*",
    "ignore:.*treespec.*",
    "ignore:.*Checkpoint directory.*",
    "ignore:.*have no `val_dataloader`.*",
    "ignore::DeprecationWarning",
)
ROWS = 24


def data() -> TensorDataset:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(ROWS, 5, generator=generator)
    return TensorDataset(x, (x[:, 0] > 0).long())


def loader(shuffle: bool = False) -> DataLoader[Any]:
    return DataLoader(data(), batch_size=8, shuffle=shuffle)


def objective(num_data: int = ROWS, **options: Any) -> dubio.ELBO:
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Linear(5, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 8), nn.ReLU(),
        dubio.Masked(nn.Linear(8, 2), dubio.masks.LearnableBernoulli(8, drop=0.3)),
    )  # fmt: skip
    return dubio.ELBO(net, Categorical(), num_data, **options)


def module(**options: Any) -> ELBOModule:
    warm_up = dubio.schedules.warm_up(8)
    sgd = partial(torch.optim.SGD, lr=0.1, momentum=0.9)
    return ELBOModule(objective(kl_weight=warm_up), sgd, draws=6, **options)


class Record(Callback):
    """What was logged after every step."""

    def __init__(self) -> None:
        self.steps: list[dict[str, float]] = []

    def on_train_batch_end(self, trainer: Trainer, *args: Any) -> None:
        self.steps.append({k: float(v) for k, v in trainer.callback_metrics.items()})


def trainer(folder: Path, epochs: int, *callbacks: Callback) -> Trainer:
    return Trainer(
        max_epochs=epochs, default_root_dir=folder, accelerator="cpu", devices=1, logger=False,
        callbacks=[*callbacks], enable_progress_bar=False, enable_model_summary=False,
        enable_checkpointing=any(isinstance(c, ModelCheckpoint) for c in callbacks),
    )  # fmt: skip


@pytest.mark.parametrize("validated", [True, False])
def test_a_resumed_run_ends_with_the_weights_of_one_that_was_not_interrupted(
    tmp_path: Path, validated: bool
) -> None:
    def fit(own: ELBOModule, start: Path | None = None) -> None:
        keep = ModelCheckpoint(tmp_path, filename="{epoch}", save_top_k=-1)
        held_out = loader() if validated else None
        trainer(tmp_path, 4, keep).fit(own, loader(shuffle=True), held_out, ckpt_path=start)

    whole, other = module(), module()
    torch.manual_seed(3)
    fit(whole)
    torch.manual_seed(99)
    fit(other, tmp_path / "epoch=1.ckpt")
    assert other.elbo.step == whole.elbo.step == 12
    for name, value in whole.state_dict().items():
        assert torch.equal(value, other.state_dict()[name]), name
    assert not torch.equal(whole.elbo.model[0].weight, module().elbo.model[0].weight)


def test_it_logs_parts_of_the_loss_rates_and_validation(tmp_path: Path) -> None:
    record, elbo = Record(), objective()
    own = ELBOModule(elbo, draws=6)
    running = trainer(tmp_path, 1, record)
    running.fit(own, loader(), loader())
    assert len(record.steps) == 3
    for logged in record.steps:
        assert logged["loss"] == pytest.approx(logged["nll"] + logged["kl"] / ROWS, abs=1e-5)
    assert record.steps[0]["rate/5"] == pytest.approx(0.3)
    assert record.steps[-1]["rate/5"] != record.steps[0]["rate/5"]
    p, y = expected(elbo), data().tensors[1]
    found = float(running.callback_metrics["val_nll"])
    assert found == pytest.approx(float(-p.log_prob(y).mean()), rel=1e-5)
    (tested,) = running.test(own, loader(), verbose=False)
    assert tested == {"test_nll": pytest.approx(found, rel=1e-6)}


def expected(elbo: dubio.ELBO) -> dubio.Predictive:
    generator = torch.Generator().manual_seed(0)
    return dubio.Predictive.concatenate(
        [
            dubio.predict(elbo.model, x, draws=6, likelihood=Categorical(), generator=generator)
            for x, _ in loader()
        ]
    )


def test_predictions_are_those_of_predict(tmp_path: Path) -> None:
    own = module()
    running = trainer(tmp_path, 1)
    p = dubio.Predictive.concatenate(running.predict(own, loader()))
    assert torch.equal(p.draws, expected(own.elbo).draws)
    alone = DataLoader(data().tensors[0], batch_size=8)
    q = dubio.Predictive.concatenate(running.predict(own, alone))
    assert torch.equal(p.draws, q.draws)


class Own(LightningModule):
    """A module as users write them."""

    def __init__(self, elbo: nn.Module) -> None:
        super().__init__()
        self.elbo = elbo

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        if isinstance(self.elbo, dubio.ELBO):
            loss: Tensor = self.elbo(*batch)
            return loss
        x, y = batch
        return nn.functional.cross_entropy(self.elbo(x), y) + dubio.kl(self.elbo) / ROWS

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters())


def test_the_callback_logs_objectives_of_other_modules(tmp_path: Path) -> None:
    elbo, record = objective(), Record()
    trainer(tmp_path, 1, LogELBO(), record).fit(Own(elbo), loader())
    assert record.steps[-1] == pytest.approx(
        {
            "nll": float(elbo.nll),
            "kl": float(elbo.kl),
            "rate/5": float(elbo.model[5].mask.drop.mean()),
        }
    )


def test_the_callback_logs_rates_of_modules_with_a_loss_of_their_own(tmp_path: Path) -> None:
    record, net = Record(), objective().model
    trainer(tmp_path, 1, LogELBO(), record).fit(Own(net), loader())
    assert record.steps[-1] == pytest.approx({"rate/elbo.5": float(net[5].mask.drop.mean())})


def test_what_cannot_be_right_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"expected a dubio\.ELBO, got Linear"):
        ELBOModule(nn.Linear(2, 2))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="got one with a generator; leave it out"):
        ELBOModule(objective(generator=torch.Generator()))
    with pytest.raises(ValueError, match=f"expected {ROWS}, the rows of the training data"):
        trainer(tmp_path, 1).fit(ELBOModule(objective(ROWS - 1)), loader(), loader())
    with pytest.raises(ValueError, match="LogELBO: expected a LightningModule"):
        trainer(tmp_path, 1, LogELBO()).fit(Own(nn.Linear(5, 2)), loader())


def test_fabric_takes_the_steps_of_a_plain_loop() -> None:
    states = []
    for fabric in (None, Fabric(accelerator="cpu", devices=1)):
        elbo = objective()
        optimizer = torch.optim.SGD(elbo.parameters(), lr=0.1)
        wrapped: Any = elbo
        if fabric is not None:
            wrapped, optimizer = fabric.setup(elbo, optimizer)
        torch.manual_seed(4)
        for x, y in loader():
            optimizer.zero_grad()
            loss = wrapped(x, y)
            loss.backward() if fabric is None else fabric.backward(loss)
            optimizer.step()
        states.append(elbo.state_dict())
    for name, value in states[0].items():
        assert torch.equal(states[1][name], value), name
