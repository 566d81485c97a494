"""Networks of the papers, as plain modules of torch."""
