"""UCI regression as papers 001 and 002 compare on it."""
