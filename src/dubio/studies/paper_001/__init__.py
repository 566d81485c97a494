"""Studies of paper 001: Concrete Dropout."""
