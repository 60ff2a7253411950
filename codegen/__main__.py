"""`python -m gradloom.codegen` is the `gradloom` command."""

import sys

from .cli import main

sys.exit(main())
