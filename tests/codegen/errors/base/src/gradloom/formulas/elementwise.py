"""Helpers that formulas may call; there are none."""
