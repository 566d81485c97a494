"""What can be wrong with checkpoints."""


class CheckpointError(RuntimeError):
    """A checkpoint cannot be written, cannot be read, or belongs to another run."""


class DamagedCheckpointError(CheckpointError):
    """A checkpoint cannot be read."""
