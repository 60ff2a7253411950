"""The operators as `gradloom.nn` calls them: found on first use, with a clear error for a missing one."""

from gradloom.dispatch import _operators


class MissingOperator(NotImplementedError, AttributeError):
    """A missing operator; an AttributeError too, for `hasattr`."""


def __getattr__(name):
    # Each operator becomes an attribute of this module on first use. Programs that look through all modules, as pickle
    # does for a lambda, ask for other names, too.
    try:
        found = globals()[name] = getattr(_operators, name)
    except AttributeError:
        raise MissingOperator(f"gradloom has no operator '{name}' yet (see native_functions.yaml)") from None
    return found
