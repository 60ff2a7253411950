"""Resampling: upsampling and downsampling, border padding, and sampling at the points of a grid."""
