"""What can go wrong when a network becomes a graph."""


class ExportError(RuntimeError):
    """A network cannot be made a graph, or the graph is not what the network computes."""
