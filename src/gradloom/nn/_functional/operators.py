"""The operators as `gradloom.nn` calls them: found on first use, with a clear error for a missing one."""

from gradloom import _operators


def __getattr__(name):
    # Found once per name: the result becomes an attribute of this module. Whoever looks through all modules, as pickle
    # does for a lambda, asks for other names, too.
    if name.startswith("__") or not name.isidentifier():
        raise AttributeError(name)
    try:
        found = globals()[name] = getattr(_operators, name)
    except AttributeError:
        raise NotImplementedError(
            f"gradloom has no operator '{name}' yet (see native_functions.yaml)"
        ) from None
    return found
