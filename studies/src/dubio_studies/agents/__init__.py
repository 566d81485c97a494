"""Agents that learn to act in worlds, each in a few readable files."""
