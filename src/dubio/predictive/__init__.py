"""What many draws of a network say about its targets."""
