"""Dropout inside attention, which torch applies out of sight of the caller."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from dubio.noise.interceptor import Args, Function, Kwargs, handles, transparent
from dubio.noise.perturbations import plain_dropout
from dubio.noise.run import Pass

_multi_head_attention = transparent(F.multi_head_attention_forward)


@handles(F.multi_head_attention_forward)
def _multi_head(running: Pass, function: Function, args: Args, kwargs: Kwargs) -> Any:
    """Look inside, with the dropout of the attention weights switched on."""
    with running:
        return _multi_head_attention(*args, **{**kwargs, "training": True})


@handles(F.scaled_dot_product_attention)
def _scaled_dot_product(running: Pass, function: Function, args: Args, kwargs: Kwargs) -> Tensor:
    """Return softmax(QKᵀ·scale + mask) with dropout on it, times V."""
    bound = _sdpa_arguments(*args, **kwargs)
    query, key, value, attn_mask, rate, is_causal, scale, enable_gqa = bound
    if not rate:
        undropped: Tensor = running.call(function, args, kwargs)
        return undropped
    if enable_gqa:
        key = key.repeat_interleave(query.size(-3) // key.size(-3), -3)
        value = value.repeat_interleave(query.size(-3) // value.size(-3), -3)
    scale = query.size(-1) ** -0.5 if scale is None else scale
    scores = (query * scale) @ key.transpose(-2, -1)  # (B, H, L, L')
    if is_causal:
        attn_mask = scores.new_ones(scores.shape[-2:], dtype=torch.bool).tril()
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = scores.masked_fill(attn_mask.logical_not(), float("-inf"))
    elif attn_mask is not None:
        scores = scores + attn_mask
    weights = scores.softmax(-1)
    if attn_mask is not None:  # a query that sees no key gets zeros, as torch has it
        weights = weights.masked_fill(scores.isneginf().all(-1, keepdim=True), 0.0)
    site = running.reach("attention", weights, rate)
    if site is not None:
        layout = running.layout(site, weights.shape, weights)
        weights = running.perturb(plain_dropout(site.index, rate, layout), weights)
    return weights @ value


def _sdpa_arguments(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, float, bool, float | None, bool]:
    return query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa
