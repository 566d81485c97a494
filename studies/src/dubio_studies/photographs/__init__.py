"""Photographs as networks that know ImageNet see them."""
