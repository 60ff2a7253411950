"""Reads the YAML files that say which operators exist and how they differentiate, and writes generated/."""
