"""Reductions: sums, extrema, counts, norms, and running results along a dimension."""
