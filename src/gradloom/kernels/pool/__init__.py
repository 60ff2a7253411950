"""Pooling over one to three spatial dimensions, and its gradients."""
