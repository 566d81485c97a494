"""What is fitted on validation data and kept beside a network."""

from torch import Tensor, nn


class Fitted(nn.Module):
    """Values that validation data give, kept as buffers: `state_dict` holds all of them.

    A state is plain tensors, so that ``torch.save(it.state_dict(), path)`` and
    ``it.load_state_dict(torch.load(path, weights_only=True))`` keep it without a pickle. A value
    that is not known yet is NaN.
    """

    def _keep(self, name: str, value: Tensor) -> None:
        setattr(self, name, value.detach().clone())

    def _known(self, name: str) -> Tensor:
        value: Tensor = getattr(self, name)
        if bool(value.isnan().any()):
            raise RuntimeError(
                f"{type(self).__name__}: expected a {name} from validation data, got none yet; "
                "call fit first, or load a state"
            )
        return value

    def _load_from_state_dict(
        self, state_dict: dict[str, Tensor], prefix: str, *arguments: object
    ) -> None:
        for name, buffer in self.named_buffers(recurse=False):
            if (saved := state_dict.get(prefix + name)) is not None:
                setattr(self, name, buffer.new_empty(saved.shape, dtype=saved.dtype))
        super()._load_from_state_dict(state_dict, prefix, *arguments)
