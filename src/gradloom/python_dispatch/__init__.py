"""Python code that overrides operators: `__torch_function__` and `__torch_dispatch__`."""
