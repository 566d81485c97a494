"""Errors of exporting."""


class ExportError(RuntimeError):
    """Raised if a network cannot be exported, or its graph computes something else."""
