"""Derivative helpers of linear algebra."""
