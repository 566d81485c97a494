"""What can go wrong when a network becomes a graph."""


class ExportError(RuntimeError):
    """Raised if a network cannot be exported, or its graph computes something else."""
