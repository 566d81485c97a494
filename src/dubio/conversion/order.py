"""Which dropout feeds which weight layers, read off the order inside `nn.Sequential`."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from torch import nn
from torch.nn.modules.dropout import _DropoutNd

from dubio.conversion.feeds import Feed, Feeds, between, by_channel, difference, shifts
from dubio.conversion.passing import passes, pools
from dubio.noise.stochastic import Stochastic


def by_order(
    model: nn.Module, layers: Mapping[nn.Module, str], dropouts: Mapping[_DropoutNd, str]
) -> Feeds:
    """What dropouts feed, by the order of modules inside `nn.Sequential`."""
    users = Counter(child for module in model.modules() for child in _children(module))
    feeds: dict[_DropoutNd, Feed] = {}
    for chain, returned in _chains(model, users):
        for position, module in enumerate(chain):
            if not isinstance(module, _DropoutNd) or module not in dropouts or users[module] > 1:
                continue
            feed = _follow(module, chain[position + 1 :], layers, users, returned)
            if feed is not None:
                feeds[module] = feed
    feeds |= {d: Feed(obstacle=shifts(d)) for d in dropouts if shifts(d)}
    unsettled = [name for dropout, name in dropouts.items() if dropout not in feeds]
    if unsettled:
        raise ValueError(
            f"example: expected a batch, since the order of nn.Sequential does not tell which "
            f"layers are fed by {', '.join(unsettled)}; pass example= a tensor, a tuple of "
            f"arguments or a dict of named arguments, to run the network on once."
        )
    return Feeds(feeds)


def _chains(
    model: nn.Module, users: Mapping[nn.Module, int]
) -> Iterator[tuple[list[nn.Module], bool]]:
    """The modules of every `nn.Sequential` in order, and whether the network returns the last.

    A Sequential inside another is part of it, unless it is used elsewhere too.
    """

    def continues(module: nn.Module) -> bool:
        return _is_sequential(module) and users[module] == 1

    def flat(sequential: nn.Module) -> Iterator[nn.Module]:
        for child in _children(sequential):
            if continues(child):
                yield from flat(child)
            else:
                yield child

    sequentials = [module for module in model.modules() if _is_sequential(module)]
    inner = {child for outer in sequentials for child in _children(outer) if continues(child)}
    for sequential in sequentials:
        if sequential not in inner:
            yield list(flat(sequential)), sequential is model


def _children(module: nn.Module) -> list[nn.Module]:
    """The children of a module in order, one that is used twice also listed twice."""
    return [child for child in module._modules.values() if child is not None]


def _is_sequential(module: nn.Module) -> bool:
    return isinstance(module, nn.Sequential) and type(module).forward is nn.Sequential.forward


def _follow(
    dropout: nn.Module,
    behind: Sequence[nn.Module],
    layers: Mapping[nn.Module, str],
    users: Mapping[nn.Module, int],
    returned: bool,
) -> Feed | None:
    """What a dropout feeds, given what comes behind it; None if that cannot be told."""
    obstacle: str | None = None
    pooled = False
    for module in behind:
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
