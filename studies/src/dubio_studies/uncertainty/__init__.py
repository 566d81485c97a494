"""Comparisons of our own: is the uncertainty any good?"""
