"""Bridges to other libraries: one module and one extra for each.

Nothing here is imported by the rest of dubio: `import dubio` needs torch and numpy only.
"""
