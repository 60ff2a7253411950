"""Dispatch: the state that a generated wrapper reads before the kernel, and the ways off the common path."""
