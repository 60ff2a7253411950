"""Losses and their gradients. A reduction is a number: 0 for elementwise losses, 1 for the mean, 2 for the sum."""
