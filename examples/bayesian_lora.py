"""Bayesian LoRA: adapt a transformer with Bayesian adapters, and defer where it is uncertain."""

import warnings

import torch
from peft import LoraConfig, get_peft_model
from torch import Tensor, nn
from transformers import DistilBertConfig, DistilBertForSequenceClassification

import dubio
from dubio import decide

warnings.filterwarnings("ignore", category=FutureWarning)  # raised inside transformers
torch.manual_seed(0)
WORDS, LENGTH, TOPICS = 40, 12, 4


def sentences(rows: int) -> tuple[Tensor, Tensor]:
    """Random words, and how many of them belong to each topic, ten words per topic."""
    words = torch.randint(WORDS, (rows, LENGTH))
    return words, nn.functional.one_hot(words // 10, TOPICS).sum(1)  # (B, L), (B, topics)


def opinions(rows: int) -> tuple[dict[str, Tensor], Tensor]:
    """A new task: words of topic 0 are positive, those of topic 1 negative, others neutral."""
    words, counts = sentences(rows)
    score = (counts[:, 0] - counts[:, 1]).float()
    return {"input_ids": words}, torch.bernoulli(torch.sigmoid(1.5 * score)).long()


# A model pretrained on a large task: which topic has the most words?
config = DistilBertConfig(
    vocab_size=WORDS, dim=64, n_layers=2, n_heads=4, hidden_dim=128, num_labels=TOPICS,
    max_position_embeddings=LENGTH, dropout=0.0, attention_dropout=0.0, seq_classif_dropout=0.0,
)  # fmt: skip
base = DistilBertForSequenceClassification(config).train()
optimizer = torch.optim.Adam(base.parameters(), lr=1e-3)
for _ in range(250):
    words, counts = sentences(64)
    optimizer.zero_grad()
    base(input_ids=words, labels=counts.argmax(1)).loss.backward()
    optimizer.step()

# Few rows of another task: frozen weights, and low-rank adapters with a distribution on factor A.
base.classifier = nn.Linear(64, 2)
adapters = LoraConfig(
    r=4, target_modules=["q_lin", "v_lin", "lin1"], modules_to_save=["pre_classifier", "classifier"]
)
lora = get_peft_model(base.eval(), adapters)
bayes = dubio.convert(lora, dubio.rules.lora())

x, y = opinions(400)
labels = dubio.likelihoods.Categorical()
elbo = dubio.ELBO(bayes.train(), labels, len(y), kl_weight=0.1, select="logits")
optimizer = torch.optim.Adam([p for p in elbo.parameters() if p.requires_grad], lr=3e-3)
history = dubio.fit(elbo, (x, y), epochs=15, batch_size=32, optimizer=optimizer)
trained = sum(p.numel() for p in bayes.parameters() if p.requires_grad)
print(f"trained {trained} of {sum(p.numel() for p in bayes.parameters())} numbers")


def predict(x: dict[str, Tensor]) -> dubio.Predictive:
    """Thirty functions of the model, which share the base weights."""
    return dubio.predict(bayes, x, draws=30, likelihood=labels, select="logits", shared=True)


validation, _ = opinions(300)
test_x, test_y = opinions(500)
bayes.eval()
p = predict(test_x)
decision = decide.Deferral("entropy").fit_coverage(predict(validation), 0.6)(p)
right = p.mean.argmax(1) == test_y
asked = decision.answer < 0
print(f"accuracy {right.float().mean():.3f}, log-likelihood {p.log_prob(test_y).mean():.3f}")
print(f"asks a human about {asked.float().mean():.0%} of the rows")
print(f"accuracy of its answers {right[~asked].float().mean():.3f}")
print(f"accuracy it would have had on the others {right[asked].float().mean():.3f}")
