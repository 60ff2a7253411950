"""Losses and their gradients. A reduction is a number: 0 for a loss per element, 1 for the mean, 2 for the sum."""
