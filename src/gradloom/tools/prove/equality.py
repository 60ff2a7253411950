"""Whether two expressions of SymPy are equal, for all real numbers at which both are defined."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from functools import cache
from typing import Any

from gradloom.codegen.derivation.forms import is_small
from gradloom.codegen.derivation.symbols import functions

_LARGEST = 300  # operations of a difference that SymPy is asked to simplify


def are_equal(x: Any, y: Any) -> bool:
    """Return whether x - y is 0 by algebra; False says nothing."""
    import sympy

    difference = x - y
    if difference == 0:
        return True
    difference = _in_elementary(difference)
    if difference == 0:
        return True
    if not is_small(difference, _LARGEST):
        return False
    try:
        if _in_time(lambda: _is_zero_quotient(difference)):
            return True
        if _in_time(lambda: sympy.simplify(difference)) == 0:
            return True
    except (sympy.PolynomialError, NotImplementedError, RecursionError, ValueError, TypeError):
        pass
    return False


SECONDS = 5.0


class _OverTimeError(Exception):
    pass


def _in_time(compute: Callable[[], Any]) -> Any:
    """Return a value; None if it takes longer than SECONDS, where the system and the thread can tell."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        return compute()

    def stop(*_: object) -> None:
        raise _OverTimeError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        return compute()
    except _OverTimeError:
        return None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@cache
def _rules() -> tuple[tuple[Any, Callable[..., Any]], ...]:
    import sympy

    own = functions()
    return (
        (own["sigmoid"], lambda u: 1 / (1 + sympy.exp(-u))),
        (own["softplus"], lambda u: sympy.log(1 + sympy.exp(u))),
        (own["logaddexp"], lambda u, v: sympy.log(sympy.exp(u) + sympy.exp(v))),
        (own["logaddexp2"], lambda u, v: sympy.log(2**u + 2**v) / sympy.log(2)),
        (own["hypot"], lambda u, v: sympy.sqrt(u * u + v * v)),
        (own["expm1"], lambda u: sympy.exp(u) - 1),
        (own["log1p"], lambda u: sympy.log(1 + u)),
        (own["rsqrt"], lambda u: 1 / sympy.sqrt(u)),
        (own["erfc"], lambda u: 1 - sympy.erf(u)),
        (sympy.erfc, lambda u: 1 - sympy.erf(u)),
        (sympy.tan, lambda u: sympy.sin(u) / sympy.cos(u)),
    )


def _in_elementary(x: Any) -> Any:
    import sympy

    for function, rule in _rules():
        x = x.replace(function, rule)
    if x.has(sympy.tanh, sympy.sinh, sympy.cosh):
        x = x.rewrite(sympy.exp)
    sign, absolute, copysign = functions()["sign"], functions()["abs"], functions()["copysign"]
    x = x.replace(sign, lambda u: copysign(1, u.args[1]) if isinstance(u, copysign) else sign(u))
    x = x.replace(copysign, lambda u, v: absolute(u) * copysign(1, v) if u != 1 else copysign(u, v))
    # |u| = u sign(u), and sign(u)^2 = 1 where u is not 0.
    x = x.replace(absolute, lambda u: u * sign(u))
    return x.replace(
        lambda e: e.is_Pow and isinstance(e.base, sign) and e.exp.is_Integer and e.exp % 2 == 0, lambda e: 1
    )


def _is_zero_quotient(x: Any) -> bool:
    """Return whether the numerator is 0 as a polynomial in functions, of which the relations are used."""
    import sympy

    x = sympy.powsimp(sympy.expand_log(x, force=False))
    exps: dict[Any, Any] = {}

    def exponential(u: Any) -> Any:
        product = sympy.S.One
        for term in sympy.Add.make_args(sympy.expand(u)):
            coefficient, rest = term.as_coeff_Mul()
            if not coefficient.is_Rational:
                coefficient, rest = sympy.S.One, term
            key = exps.setdefault(rest, sympy.Dummy(positive=True))
            product *= key**coefficient
        return product

    x = x.replace(lambda e: isinstance(e, sympy.exp), lambda e: exponential(e.args[0]))
    x = x.replace(
        lambda e: e.is_Pow and e.base.is_Rational and e.base > 0 and e.exp.free_symbols,
        lambda e: exponential(e.exp * sympy.log(e.base)),
    )
    numerator = sympy.fraction(sympy.together(x))[0]
    numerator = sympy.expand(numerator)
    if numerator == 0:
        return True
    for u in {c.args[0] for c in numerator.atoms(sympy.sin)}:
        numerator = sympy.expand(numerator.replace(
            lambda e, u=u: e.is_Pow and e.base == sympy.cos(u) and e.exp.is_Integer and e.exp > 1,
            lambda e, u=u: (1 - sympy.sin(u) ** 2) ** (e.exp // 2) * sympy.cos(u) ** (e.exp % 2)))  # fmt: skip
    return bool(numerator == 0)
