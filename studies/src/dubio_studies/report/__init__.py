"""The report: pages about all runs, from their stored rows alone.

``results`` finds the runs and judges the claims, ``pages`` turns them into HTML, ``site`` writes
the files.
"""
