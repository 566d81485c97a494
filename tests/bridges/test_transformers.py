"""Tiny transformers, built from a config, trained by Hugging Face's Trainer on an ELBO."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import dubio
from dubio.likelihoods import Categorical

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")

from transformers import (  # noqa: E402
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    BertForTokenClassification,
    TrainingArguments,
)

from dubio.bridges.transformers import ELBOTrainer  # noqa: E402

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*pin_memory.*:UserWarning",
    "ignore::DeprecationWarning",
    "ignore::FutureWarning",
)

CONFIG = BertConfig(
    vocab_size=30, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
    intermediate_size=16, max_position_embeddings=12, num_labels=3,
)  # fmt: skip
ROWS, WORDS = 24, 6


def build(kind: Any = BertForSequenceClassification, drop: float = 0.2) -> nn.Module:
    """A transformer with a learned mask before its last layer."""
    torch.manual_seed(0)
    mask = dubio.rules.mask_inputs(
        dubio.masks.Concrete, where="classifier", drop=drop, length_scale=1.0
    )
    words = {"input_ids": torch.ones(2, WORDS, dtype=torch.long)}
    return dubio.convert(kind(CONFIG).eval(), mask, example=words)


def rows(void: int = 0) -> list[dict[str, Tensor]]:
    """Sentences whose label is the remainder of their first word; some without a label."""
    generator = torch.Generator().manual_seed(1)
    words = torch.randint(1, 30, (ROWS, WORDS), generator=generator)
    labels = words[:, 0] % 3
    labels[:void] = -100
    return [{"input_ids": w, "labels": y} for w, y in zip(words, labels, strict=True)]


def objective(net: nn.Module, num_data: int = ROWS, **options: Any) -> dubio.ELBO:
    return dubio.ELBO(net, Categorical(void=-100), num_data, select="logits", **options)


def arguments(folder: Path, **options: Any) -> TrainingArguments:
    default = {
        "per_device_train_batch_size": 8, "per_device_eval_batch_size": 10, "num_train_epochs": 2,
        "learning_rate": 0.01, "report_to": "none", "disable_tqdm": True, "use_cpu": True,
        "logging_steps": 1, "save_strategy": "no", "dataloader_pin_memory": False,
    }  # fmt: skip
    return TrainingArguments(output_dir=str(folder), **default | options)


def without_noise(net: nn.Module) -> nn.Module:
    for module in net.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return net


def same(one: nn.Module, other: nn.Module) -> bool:
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize(("void", "batch", "accumulate"), [(0, 6, 4), (0, 24, 1), (3, 24, 1)])
def test_a_step_is_that_of_the_mean_over_rows_with_the_kl_once(
    void: int, batch: int, accumulate: int, tmp_path: Path
) -> None:
    """Masks that keep everything make the loss a function without noise, in closed form."""
    net = without_noise(build(drop=1e-12)).double()
    data, count = rows(void), ROWS - void
    words = torch.stack([row["input_ids"] for row in data[void:]])
    labels = torch.stack([row["labels"] for row in data[void:]])
    weight, bias = net.classifier.layer.weight, net.classifier.layer.bias
    with torch.no_grad():
        pooled = net.bert(words).pooler_output
    loss = nn.functional.cross_entropy(pooled @ weight.T + bias, labels)
    loss = loss + 0.5 * weight.square().sum() / count  # ℓ²‖W‖²/2 of all rows, and no entropy
    expected = weight.detach() - 0.1 * torch.autograd.grad(loss, weight)[0]
    args = arguments(
        tmp_path,
        num_train_epochs=1,
        per_device_train_batch_size=batch,
        gradient_accumulation_steps=accumulate,
        optim="sgd",
        learning_rate=0.1,
        lr_scheduler_type="constant",
        max_grad_norm=0.0,
    )
    trainer = ELBOTrainer(objective(net, count), args, train_dataset=data)
    trainer.train()
    assert trainer.state.global_step == 1
    torch.testing.assert_close(weight.detach(), expected)


def test_it_logs_parts_of_the_loss_and_rates(tmp_path: Path) -> None:
    elbo = objective(build())
    trainer = ELBOTrainer(elbo, arguments(tmp_path), train_dataset=rows())
    trainer.train()
    steps = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert len(steps) == 6
    for entry in steps:
        expected = entry["nll"] + entry["kl"] / ROWS
        assert entry["loss"] == pytest.approx(expected, abs=1e-4)
    assert steps[-1]["rate/classifier"] == pytest.approx(float(elbo.model.classifier.mask.drop))
    assert steps[-1]["rate/classifier"] != steps[0]["rate/classifier"]


def test_a_resumed_run_ends_with_the_weights_of_one_that_was_not_interrupted(
    tmp_path: Path,
) -> None:
    def trainer(folder: str, **options: Any) -> ELBOTrainer:
        warm_up = dubio.schedules.warm_up(5)
        args = arguments(tmp_path / folder, save_strategy="steps", save_steps=4, **options)
        return ELBOTrainer(
            objective(build(), kl_weight=warm_up), args, train_dataset=rows(), eval_dataset=rows()
        )

    whole = trainer("whole")
    whole.train()
    assert whole.elbo.step == 6
    other = trainer("whole")
    torch.rand(5)  # the generator stands elsewhere
    other.train(resume_from_checkpoint=str(tmp_path / "whole" / "checkpoint-4"))
    assert other.elbo.step == 6
    assert same(whole.elbo, other.elbo)
    assert not same(whole.elbo, objective(build()))


def test_the_best_weights_are_loaded_at_the_end(tmp_path: Path) -> None:
    """A large learning rate makes the loss of the second epoch worse."""
    args = arguments(
        tmp_path, save_strategy="epoch", eval_strategy="epoch", load_best_model_at_end=True,
        learning_rate=0.5, metric_for_best_model="loss",
    )  # fmt: skip
    trainer = ELBOTrainer(
        objective(build()), args, train_dataset=rows(), eval_dataset=rows(), draws=5
    )
    trainer.train()
    losses = [e["eval_loss"] for e in trainer.state.log_history if "eval_loss" in e]
    assert trainer.state.best_metric == min(losses)
    assert trainer.evaluate()["eval_loss"] == pytest.approx(min(losses))


def test_predictions_are_those_of_predict(tmp_path: Path) -> None:
    net = build()
    trainer = ELBOTrainer(
        objective(net), arguments(tmp_path), draws=7, metrics={"rows": lambda p, y: float(len(p))}
    )
    data = rows(void=4)
    before = torch.get_rng_state()
    p, labels, scores = trainer.predict(data)
    assert torch.equal(before, torch.get_rng_state())
    generator = torch.Generator().manual_seed(trainer.args.seed)
    words = torch.stack([row["input_ids"] for row in data])
    expected = [
        dubio.predict(
            net,
            {"input_ids": part},
            draws=7,
            likelihood=Categorical(void=-100),
            select="logits",
            generator=generator,
        )
        for part in words.split(10)
    ]
    assert isinstance(p, dubio.Predictive)
    assert torch.equal(p.draws, dubio.Predictive.concatenate(expected).draws)
    y = torch.as_tensor(labels)
    assert scores["test_loss"] == pytest.approx(float(-p[4:].log_prob(y[4:]).mean()), rel=1e-6)
    assert scores["test_rows"] == ROWS
    unlabelled = [{"input_ids": row["input_ids"]} for row in data]
    assert torch.equal(trainer.predict(unlabelled).predictions.draws, p.draws)


def test_tokens_are_labelled_one_by_one_with_padding_left_out(tmp_path: Path) -> None:
    def padded(batch: list[dict[str, Any]]) -> dict[str, Tensor]:
        longest = max(len(row["input_ids"]) for row in batch)

        def pad(name: str, value: int) -> Tensor:
            parts = [[*row[name], *[value] * (longest - len(row[name]))] for row in batch]
            return torch.tensor(parts)

        ids = pad("input_ids", 0)
        return {"input_ids": ids, "attention_mask": (ids > 0).long(), "labels": pad("labels", -100)}

    lengths = [3, 6, 4, 5] * 6
    words = [[int(w) for w in row["input_ids"][:n]] for row, n in zip(rows(), lengths, strict=True)]
    data = [{"input_ids": w, "labels": [i % 3 for i in w]} for w in words]
    args = arguments(tmp_path, num_train_epochs=1, per_device_eval_batch_size=3)
    trainer = ELBOTrainer(
        objective(build(BertForTokenClassification)),
        args, train_dataset=data, data_collator=padded, draws=4,
    )  # fmt: skip
    trainer.train()
    p, labels, _ = trainer.predict(data)
    assert p.mean.shape == (ROWS, 6, 3)
    y = torch.as_tensor(labels)
    assert [int((row != -100).sum()) for row in y] == lengths
    logs = p.draws[:, 0, :3].log_softmax(-1)  # of the first sentence, three words long
    joint = logs.gather(-1, y[0, :3].expand(4, 3)[..., None]).sum((1, 2))
    torch.testing.assert_close(p.log_prob(y)[0], joint.logsumexp(0) - torch.tensor(4.0).log())


def test_tied_weights_are_saved_and_loaded(tmp_path: Path) -> None:
    net = BertForMaskedLM(CONFIG)
    assert net.cls.predictions.decoder.weight is net.bert.embeddings.word_embeddings.weight
    trainer = ELBOTrainer(objective(net), arguments(tmp_path))
    trainer.save_model(str(tmp_path / "saved"))
    torch.manual_seed(9)
    other = ELBOTrainer(objective(BertForMaskedLM(CONFIG)), arguments(tmp_path))
    other._load_from_checkpoint(str(tmp_path / "saved"))
    assert same(trainer.elbo, other.elbo)


def test_a_wrong_number_of_rows_is_an_error(tmp_path: Path) -> None:
    trainer = ELBOTrainer(objective(build(), ROWS + 1), arguments(tmp_path), train_dataset=rows())
    with pytest.raises(ValueError, match=f"expected {ROWS}, the rows of the training data"):
        trainer.train()


def test_what_does_not_go_with_an_objective_is_an_error(tmp_path: Path) -> None:
    args = arguments(tmp_path)
    with pytest.raises(TypeError, match=r"expected a dubio\.ELBO, got Linear"):
        ELBOTrainer(nn.Linear(2, 2), args)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="got one with a generator; leave it out"):
        ELBOTrainer(objective(build(), generator=torch.Generator()), args)
    with pytest.raises(TypeError, match="compute_metrics: expected none with an ELBO"):
        ELBOTrainer(objective(build()), args, compute_metrics=len)
    with pytest.raises(ValueError, match="gradient_checkpointing=False"):
        ELBOTrainer(objective(build()), arguments(tmp_path, gradient_checkpointing=True))
    trainer = ELBOTrainer(objective(build()), args, train_dataset=[{"input_ids": [1, 2]}] * ROWS)
    with pytest.raises(ValueError, match="expected 'labels' among them"):
        trainer.train()
