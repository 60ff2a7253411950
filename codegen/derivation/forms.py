"""Ways to write a derivative, equal in exact numbers, of which some are right in floating point.

What a numerical analyst would try, the simplest first:

    the derivative as it is, and with its common factors taken out
    exponentials and hyperbolic functions of one argument by sigmoid(u) = 1 / (1 + exp(-u)), which has no overflow
    log(1 + u), exp(u) - 1, log(1 + exp(u)), 1 + erf(u), 1 - tanh(u), sqrt(x^2 + y^2) by log1p, expm1, softplus, erfc,
    sigmoid and hypot
    1 - x^2 as (1 - x)(1 + x)
    the result of the operator, and parts of it, in the place of what computes them
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

from .symbols import functions, to_tree

RESULT = "result"
_LARGEST = 120  # operations of an expression; larger ones are not rewritten by algebra
_HIGHEST = 12  # power in it


def forms(derivative: Any, value: Any) -> Iterator[ast.expr]:
    """Yield ways to write a derivative, the simplest first, each once. `value` is the result of the operator, which is
    `result` in the derivative."""
    seen: set[str] = set()
    parts = list(_parts_of_result(value))
    for equal in _each_once(_equal(stable_signs(derivative))):
        for one in _each_once(_with_result(equal, parts)):
            for written in _each_once(_stable(one)):
                for apart in (False, True):
                    try:
                        tree = to_tree(written, apart)
                    except ArithmeticError:
                        continue
                    text = ast.unparse(tree)
                    if text not in seen:
                        seen.add(text)
                        yield tree


def _each_once(found: Iterator[Any]) -> Iterator[Any]:
    seen: set[Any] = set()
    for x in found:
        if x not in seen:
            seen.add(x)
            yield x


def _equal(x: Any) -> Iterator[Any]:
    import sympy

    yield x
    if not is_small(x):
        return
    yield sympy.factor_terms(x)
    yield sympy.powsimp(x)
    if x.has(sympy.sinh) and x.has(sympy.cosh):
        yield x.replace(sympy.sinh, lambda u: sympy.tanh(u) * sympy.cosh(u))
    plain, back = _plain(x)
    if plain.has(sympy.Add):
        together = sympy.together(plain)
        yield together.xreplace(back)
        try:
            yield sympy.factor(together).xreplace(back)
        except (sympy.PolynomialError, NotImplementedError):
            pass
    yield from by_sigmoid(x)


def is_small(x: Any, largest: int = _LARGEST) -> bool:
    """Return whether algebra with an expression takes no long time."""
    import sympy

    powers = (abs(p.exp) for p in x.atoms(sympy.Pow) if p.exp.is_Integer)
    return bool(x.count_ops() <= largest and max(powers, default=0) <= _HIGHEST)


def _plain(x: Any) -> tuple[Any, dict[Any, Any]]:
    """Return an expression with symbols of which nothing is assumed, on which SymPy's algebra is much faster, and what
    they stand for."""
    import sympy

    there = {s: sympy.Symbol(s.name) for s in x.free_symbols if not isinstance(s, sympy.Dummy)}
    return x.xreplace(there), {new: old for old, new in there.items()}


def by_sigmoid(x: Any) -> Iterator[Any]:
    """Yield the forms of an expression in which sigmoids stand for the exponentials and hyperbolic functions of one
    argument; none if it has none, or several unrelated ones."""
    import sympy

    if not x.has(sympy.exp, sympy.tanh, sympy.sinh, sympy.cosh, functions()["sigmoid"]) or not is_small(x):
        return
    plain, back = _plain(x)
    hidden: dict[Any, Any] = {}
    found = _in_one_exponential(plain, hidden)
    if found is None:
        return
    rational, power, argument = found
    s, c = sympy.Dummy("s"), sympy.Dummy("c")
    try:
        in_s = sympy.cancel(rational.subs(power, s / (1 - s)))
        above, below = sympy.fraction(in_s)
        if below.has(s) or not above.is_polynomial(s):
            return
        ways = [sympy.factor(in_s), _by_complement(in_s, s, c), sympy.collect(sympy.expand(in_s), s)]
    except (sympy.PolynomialError, NotImplementedError):
        return
    sigmoid = functions()["sigmoid"]
    for one in ways:
        one = one.replace(lambda e: e.is_Add and e == s - 1, lambda _: -c)
        one = one.replace(lambda e: e.is_Add and e == 1 - s, lambda _: c)
        yield one.xreplace({s: sigmoid(argument), c: sigmoid(-argument)}).xreplace(hidden).xreplace(back)


def _by_complement(x: Any, s: Any, c: Any) -> Any:
    """Return a polynomial k + a s + b s^2 as k + (a + b) s - b s (1 - s), where c = 1 - s: what cancels for s near 1
    stands in one factor."""
    import sympy

    expanded = sympy.expand(x)
    k, a, b = (expanded.coeff(s, n) for n in range(3))
    if b == 0 or sympy.expand(expanded - k - a * s - b * s * s) != 0:
        return x
    return k + sympy.factor(a + b) * s - b * s * c


def _in_one_exponential(x: Any, hidden: dict[Any, Any]) -> tuple[Any, Any, Any] | None:
    """Return an expression as a rational function of exp(u), the symbol of exp(u), and u; None if it is none.

    Args:
        hidden: gets the symbols that stand for functions of which it is none.
    """
    import sympy

    def hide(function: Any) -> Any:
        for symbol, known in hidden.items():
            if known == function:
                return symbol
        symbol = sympy.Dummy()
        hidden[symbol] = function
        return symbol

    plain = (sympy.exp, sympy.tanh, sympy.sinh, sympy.cosh)
    x = x.replace(functions()["sigmoid"], lambda u: 1 / (1 + sympy.exp(-u)))
    x = x.replace(lambda e: e.is_Function and not isinstance(e, plain), hide)
    if x.has(*plain[1:]):
        x = x.rewrite(sympy.exp)
    arguments = sorted({e.args[0] for e in x.atoms(sympy.exp)}, key=sympy.default_sort_key)
    if not arguments:
        return None
    first = arguments[0]
    ratios = [sympy.cancel(a / first) if a != first else sympy.S.One for a in arguments]
    if not all(r.is_Rational for r in ratios):
        return None
    unit = sympy.Rational(int(sympy.gcd_list([r.p for r in ratios])), int(sympy.lcm_list([r.q for r in ratios])))
    argument = sympy.expand(first * unit)
    if argument.could_extract_minus_sign():
        argument = -argument
    power = sympy.Dummy("E")
    sign = 1 if argument == sympy.expand(first * unit) else -1
    powers = {a: int(sign * r / unit) for a, r in zip(arguments, ratios, strict=True)}
    rational = sympy.cancel(x.replace(sympy.exp, lambda a: power ** powers[a]))
    if _is_even(rational, power):
        argument, half = 2 * argument, power
        power = sympy.Dummy("E")
        rational = rational.replace(
            lambda e: e.is_Pow and e.base == half and e.exp % 2 == 0, lambda e: power ** (e.exp / 2)
        )
    return rational, power, argument


def _is_even(x: Any, power: Any) -> bool:
    import sympy

    try:
        terms = [m for part in sympy.fraction(x) for (m,), _ in sympy.Poly(part, power).terms()]
    except sympy.PolynomialError:
        return False
    return bool(terms) and all(m % 2 == 0 for m in terms)


def _parts_of_result(value: Any) -> Iterator[Any]:
    """Yield the ways in which the operator's result may stand in its derivative."""
    if value.is_Symbol or not value.free_symbols:
        return
    yield value
    yield from by_sigmoid(value)


def _with_result(x: Any, parts: list[Any]) -> Iterator[Any]:
    """Yield an expression without and with the operator's result in it."""
    import sympy

    yield x
    result = sympy.Symbol(RESULT, real=True)
    for part in parts:
        found = x.subs(part, result)
        if found != x:
            yield found
            return


def _stable(x: Any) -> Iterator[Any]:
    """Yield an expression as it is, and with functions that keep the digits of small and the range of large numbers."""
    import sympy

    yield x
    own = functions()
    one = stable(x)
    yield one
    yield one.replace(
        _that(lambda e: e.is_Add and len(e.args) == 2 and 1 in e.args and sympy.sqrt(1 - e).is_Symbol),
        lambda e: (1 - sympy.sqrt(1 - e)) * (1 + sympy.sqrt(1 - e)),
    )
    yield one.replace(_that(lambda e: e.is_Pow and e.exp == -sympy.Rational(1, 2)), lambda e: own["rsqrt"](e.base))


def stable(x: Any) -> Any:
    """Return an expression with functions that keep the digits of small and the range of large numbers."""
    import sympy

    own = functions()
    sigmoid = own["sigmoid"]
    x = x.replace(_that(_is_complement), _sech_squared)
    x = stable_signs(x)
    x = _saturated(x, sympy.erf, lambda u: own["erfc"](-u), lambda u: own["erfc"](u))
    x = _saturated(x, sympy.tanh, lambda u: 2 * sigmoid(2 * u), lambda u: 2 * sigmoid(-2 * u))
    x = x.replace(_that(_is_log_of_one_plus), _log1p).replace(_that(_is_exp_minus_one), _expm1)
    x = x.replace(_that(_is_root_of_squares), lambda e: own["hypot"](*_squares(e.base)) ** (2 * e.exp))
    return x


def stable_signs(x: Any) -> Any:
    """Return an expression with |u| for u sign(u)."""
    return x.replace(_that(_has_own_sign), _absolute) if x.has(functions()["sign"]) else x


def _has_own_sign(e: Any) -> bool:
    """Return whether an expression is a product of u and sign(u)."""
    return bool(e.is_Mul) and any(isinstance(f, functions()["sign"]) and f.args[0] in e.args for f in e.args)


def _absolute(e: Any) -> Any:
    own = functions()
    sign = next(f for f in e.args if isinstance(f, own["sign"]) and f.args[0] in e.args)
    return e / sign / sign.args[0] * own["abs"](sign.args[0])


def _that(test: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Return the test for expressions that are no constants."""
    return lambda e: bool(e.free_symbols) and test(e)


def _saturating(e: Any, function: Any) -> tuple[Any, Any, Any] | None:
    """Return k, k f(u) and f(u) of a sum with k + k f(u) or k - k f(u) in it."""
    constant = next((a for a in e.args if not a.free_symbols), None)
    if constant is None:
        return None
    for term in e.args:
        for f in term.atoms(function):
            factor = term / f
            if not factor.free_symbols and abs(factor) == abs(constant):
                return constant, term, f
    return None


def _saturated(x: Any, function: Any, plus: Callable[[Any], Any], minus: Callable[[Any], Any]) -> Any:
    """Return an expression with plus(u) for 1 + f(u), and minus(u) for 1 - f(u)."""

    def written(e: Any) -> Any:
        found = _saturating(e, function)
        assert found is not None
        constant, term, f = found
        form = plus if term / f == constant else minus
        return e - constant - term + constant * form(f.args[0])

    if not x.has(function):
        return x
    return x.replace(_that(lambda e: e.is_Add and _saturating(e, function) is not None), written)


def _is_complement(e: Any) -> bool:
    """Return whether an expression is 1 - tanh(u)^2."""
    import sympy

    root = sympy.sqrt(1 - e) if e.is_Add and len(e.args) == 2 else None
    return root is not None and any(isinstance(a, sympy.tanh) for a in (root, *root.args))


def _sech_squared(e: Any) -> Any:
    import sympy

    sigmoid = functions()["sigmoid"]
    of = 2 * next(iter((1 - e).atoms(sympy.tanh))).args[0]
    return 4 * sigmoid(of) * sigmoid(-of)


def _is_log_of_one_plus(e: Any) -> bool:
    import sympy

    return isinstance(e, sympy.log) and e.args[0].is_Add and 1 in e.args[0].args


def _log1p(e: Any) -> Any:
    import sympy

    rest = e.args[0] - 1
    if isinstance(rest, sympy.exp):
        return functions()["softplus"](rest.args[0])
    return functions()["log1p"](rest)


def _is_exp_minus_one(e: Any) -> bool:
    import sympy

    return bool(e.is_Add and len(e.args) == 2 and -1 in e.args and any(isinstance(a, sympy.exp) for a in e.args))


def _expm1(e: Any) -> Any:
    return functions()["expm1"]((e + 1).args[0])


def _is_root_of_squares(e: Any) -> bool:
    return bool(e.is_Pow and e.exp.is_Rational and (2 * e.exp).is_integer and len(_squares(e.base)) == 2)


def _squares(x: Any) -> tuple[Any, ...]:
    """Return x and y of x^2 + y^2; nothing for another expression."""
    import sympy

    if not x.is_Add or len(x.args) != 2:
        return ()
    if not all(a.is_Pow and a.exp == 2 or a.is_Number and a.is_positive for a in x.args):
        return ()
    return tuple(a.base if a.is_Pow else sympy.sqrt(a) for a in sorted(x.args, key=sympy.default_sort_key))
