"""What the training minimizes: the single terms, and their weighted sum over the deep supervision outputs."""
