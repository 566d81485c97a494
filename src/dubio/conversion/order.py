"""Which dropout feeds which weight layers, read off the order inside `nn.Sequential`.

That is known only of a network that is an `nn.Sequential`, perhaps of others: a `forward` of
somebody's own may call any layer, by its index or as part of a slice, and hooks may do anything.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from torch import nn
from torch.nn.modules.dropout import _DropoutNd
from torch.utils._pytree import tree_leaves

from dubio.conversion.feeds import Feed, Feeds, between, by_channel, difference, shifts
from dubio.conversion.kinds import is_hooked, is_plain
from dubio.conversion.passing import passes, pools
from dubio.noise.stochastic import Stochastic


def by_order(
    model: nn.Module, layers: Mapping[nn.Module, str], dropouts: Mapping[_DropoutNd, str]
) -> Feeds:
    """Return what dropouts feed, by the order of modules inside `nn.Sequential`."""
    users = Counter(
        part
        for module in model.modules()
        for part in tree_leaves(vars(module))
        if isinstance(part, nn.Module)
    )
    feeds: dict[_DropoutNd, Feed] = {}
    for chain, returned in _chains(model, users):
        for position, module in enumerate(chain):
            if not isinstance(module, _DropoutNd) or module not in dropouts or users[module] > 1:
                continue
            if is_hooked(module):
                continue
            feed = _follow(module, chain[position + 1 :], layers, users, returned)
            if feed is not None:
                feeds[module] = feed
    feeds |= {d: Feed(obstacle=shifts(d)) for d in dropouts if shifts(d)}
    unsettled = [name for dropout, name in dropouts.items() if dropout not in feeds]
    if unsettled:
        raise ValueError(
            f"example: expected a batch, since the order of nn.Sequential does not show which "
            f"layers are fed by {', '.join(unsettled)}; pass example= a tensor, a tuple of "
            f"arguments or a dict of named arguments, to run the network on once"
        )
    return Feeds(feeds)


def _chains(
    model: nn.Module, users: Mapping[nn.Module, int]
) -> Iterator[tuple[list[nn.Module], bool]]:
    """Yield the modules of every `nn.Sequential` in order, and whether it ends the network.

    A Sequential inside another is part of it, unless it is used elsewhere too or has hooks.
    """
    seen: set[nn.Module] = set()

    def visit(module: nn.Module) -> Iterator[tuple[list[nn.Module], bool]]:
        if module in seen:
            return
        seen.add(module)
        parts: list[nn.Module] = []
        if is_plain(module, nn.Sequential):
            parts = list(flat(module))
            yield parts, module is model
        elif is_plain(module, nn.ModuleList | nn.ModuleDict):  # whose parts are called one by one
            parts = list(module.children())
        for part in parts:
            yield from visit(part)

    def flat(sequential: nn.Module) -> Iterator[nn.Module]:
        for child in sequential._modules.values():
            if child is None:
                continue
            if is_plain(child, nn.Sequential) and users[child] == 1 and not is_hooked(child):
                yield from flat(child)
            else:
                yield child

    return visit(model)


def _follow(
    dropout: nn.Module,
    behind: Sequence[nn.Module],
    layers: Mapping[nn.Module, str],
    users: Mapping[nn.Module, int],
    returned: bool,
) -> Feed | None:
    """Return what a dropout feeds, given the modules after it; None if unknown."""
    obstacle: str | None = None
    pooled = False
    for module in behind:
        if is_hooked(module) and module not in layers:
            break
        if passes(module):
            continue
        if pools(module):
            pooled = True
        elif isinstance(module, Stochastic):
            return Feed(obstacle="it feeds a layer that is stochastic already")
        elif module in layers:
            if users[module] > 1:
                return None
            if pooled and not by_channel(dropout, module):
                obstacle = obstacle or "pooling"
            if obstacle is not None:
                return Feed(obstacle=between(obstacle, layers[module]))
            return Feed({module: difference(dropout, module)})
        elif type(module).__module__.startswith("torch.nn.") and not module._modules:
            obstacle = obstacle or type(module).__name__
        else:
            break
    else:
        if returned and obstacle is None:
            return Feed(obstacle="its output goes to what the network returns")
    return None if obstacle is None else Feed(obstacle=between(obstacle, None))
