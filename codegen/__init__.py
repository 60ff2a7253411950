"""Reads the YAML files that say which operators exist and how they differentiate, and writes generated/."""

import time

BEGAN = time.time_ns()  # when this process began to load the generator
