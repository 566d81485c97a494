"""What studies of handwritten digits share."""
