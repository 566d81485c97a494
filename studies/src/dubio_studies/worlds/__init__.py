"""Worlds that agents act in."""
