"""Segmentation of street scenes with learned dropout: networks that several studies share."""
