"""Convolution in one to three dimensions, its gradients, and the rearrangement of sliding windows."""
