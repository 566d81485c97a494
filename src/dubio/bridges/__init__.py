"""Bridges to other libraries, one a module, each with an extra of its name.

Nothing here is imported by the rest of dubio: `import dubio` needs torch and numpy only.
"""
