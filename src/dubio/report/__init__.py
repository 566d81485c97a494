"""Tables, progress bars and figures."""
