"""The page to feel doubt: networks for a browser, and numbers that its tests compare."""
