"""How the life of a forager is cut into pieces."""

TICKS_OF_BATCH = 200
"""Of what the paper calls a batch."""

WINDOW = 1000
"""Ticks whose rewards are averaged."""

TICKS_OF_FRAME = 12
"""From one frame of the filmstrip to the next."""
