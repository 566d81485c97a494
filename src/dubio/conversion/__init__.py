"""Turning an ordinary network into a Bayesian one.

`places` finds the weight layers; `order` and `example` find which dropout feeds which of them;
`planning` asks a rule (`dubio.rules`) for replacements; `convert` carries the `plan`
out.
"""
