"""What workers of `torchrun` use."""
