"""What can be said of generated modules without running them; the fuzz test and the tests of names ask it."""

import builtins
import symtable
import warnings
from functools import lru_cache


def problems(files):
    """What is wrong with the texts of generated files: syntax, names that nothing defines, names defined twice."""
    return [f"{name}: {problem}" for name, text in files.items() if name.endswith(".py") for problem in _of(name, text)]


@lru_cache(500)  # most files are those of the case before
def _of(name, text):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # `1 is x`, an unknown escape: Python warns when it compiles
            compile(text, name, "exec")
    except (SyntaxError, ValueError) as error:
        return [f"{type(error).__name__}: {error}"]
    top = symtable.symtable(text, name, "exec")
    defined = {s.get_name() for s in top.get_symbols() if s.is_assigned() or s.is_imported() or s.is_namespace()}
    children = [child.get_name() for child in top.get_children()]
    found = [f"`{child}` is defined twice" for child in {c for c in children if children.count(c) > 1}]
    imported = {s.get_name() for s in top.get_symbols() if s.is_imported()}
    found += [f"`{child}` hides what is imported" for child in imported.intersection(children)]
    return found + [f"`{n}` in `{where}` is not defined" for where, n in _undefined(top, defined)]


def _undefined(table, defined):
    for symbol in table.get_symbols():
        name = symbol.get_name()
        if symbol.is_global() and symbol.is_referenced() and name not in defined and not hasattr(builtins, name):
            yield table.get_name(), name
    for child in table.get_children():
        yield from _undefined(child, defined)
