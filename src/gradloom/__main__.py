"""`python -m gradloom`: the `gradloom` command."""

import sys
from importlib import import_module

if __name__ == "__main__":
    sys.exit(import_module("gradloom.tools.cli").main())
