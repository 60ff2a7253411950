"""Utilities that stand beside the core; each is imported on its own (`gradloom.utils.hooks`, ...)."""
