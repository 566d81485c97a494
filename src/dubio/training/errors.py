"""Errors about checkpoints."""


class CheckpointError(RuntimeError):
    """Raised if a checkpoint cannot be written or read, or belongs to another run."""


class DamagedCheckpointError(CheckpointError):
    """Raised if a checkpoint cannot be read."""
