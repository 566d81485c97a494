"""Layers with distributions on their weights."""
