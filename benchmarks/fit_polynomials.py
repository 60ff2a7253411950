"""Fit the polynomials of the compiler's vector mathematics, and write src/gradloom/compiler/_llvm/coefficients.py.

    python benchmarks/fit_polynomials.py            # needs mpmath; takes some minutes

Each function is written as `base + factor * P(variable)`, and P is the minimax polynomial for the relative error of
the whole: Remez' exchange algorithm (E. Remez 1934; W. Fraser, "A survey of methods of computing minimax and
near-minimax polynomial approximations", J. ACM 12, 1965) with the weight factor / function, in 60 digits. Coefficients
are rounded to the target's precision from the lowest to the highest; after each, the remaining ones are fitted anew,
which takes up most of the rounding's error (N. Brisebarre and S. Chevillard, "Efficient polynomial L-infinity
approximations", ARITH 2007, do better; the remaining error, printed as a power of two, does not call for it).

Where the formulas come from: J.-M. Muller, "Elementary Functions: Algorithms and Implementation", 3rd edition, 2016
(exp, log, sin, cos, atan); M. M. Shepherd and J. G. Laframboise, "Chebyshev approximation of (1 + 2x) exp(x^2) erfc x
in 0 <= x < infinity", Math. Comp. 36, 1981 (erfc).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from mpmath import mp, mpf

mp.dps = 60
HERE = Path(__file__).resolve().parents[1]
TARGET = HERE / "src/gradloom/compiler/_llvm/coefficients.py"
ERFC_CENTRE = mpf(4)


class Fit(NamedTuple):
    """P(x) of `degree` on [low, high] close to target(x), with the error weighted by weight(x)."""

    name: str
    target: Callable[[Any], Any]
    weight: Callable[[Any], Any]
    low: Any
    high: Any
    single: int | None  # degree for float32; None: not used there
    double: int | None  # degree for float64
    pair: bool = False  # whether the first coefficient is a sum of two


def near_zero(function: Callable[[Any], Any], limit: Callable[[], Any]) -> Callable[[Any], Any]:
    """Return `function`, with its limit where it would divide zero by zero."""
    return lambda x: function(x) if abs(x) > mpf(10) ** -18 else limit()


def remez(fit: Fit, powers: list[int], fixed: list[tuple[int, Any]]) -> list[Any]:
    """Return the coefficients of `powers` that minimise the greatest weighted error beside those that are fixed."""
    n = len(powers)
    points = [
        (fit.low + fit.high) / 2 - (fit.high - fit.low) / 2 * mp.cos(mp.pi * (i + mpf(1) / 2) / (n + 1))
        for i in range(n + 1)
    ]
    grid = [fit.low + (fit.high - fit.low) * (1 - mp.cos(mp.pi * i / (40 * n))) / 2 for i in range(40 * n + 1)]
    known = [(fit.target(x) - sum(c * x**p for p, c in fixed), fit.weight(x)) for x in grid]
    coefficients: list[Any] = []
    for _ in range(12):
        rows, right = mp.matrix(n + 1, n + 1), mp.matrix(n + 1, 1)
        for i, x in enumerate(points):
            for j, p in enumerate(powers):
                rows[i, j] = x**p
            rows[i, n] = (-1) ** i / fit.weight(x)
            right[i] = fit.target(x) - sum(c * x**p for p, c in fixed)
        solved = mp.lu_solve(rows, right)
        coefficients = list(solved[:n])
        errors = [
            (value - sum(c * x**p for c, p in zip(coefficients, powers, strict=True))) * weight
            for x, (value, weight) in zip(grid, known, strict=True)
        ]
        extrema: list[int] = []
        for i in range(len(grid)):  # the largest error between changes of sign
            if extrema and (errors[i] > 0) == (errors[extrema[-1]] > 0):
                if abs(errors[i]) > abs(errors[extrema[-1]]):
                    extrema[-1] = i
            else:
                extrema.append(i)
        while len(extrema) > n + 1:
            del extrema[0 if abs(errors[extrema[0]]) < abs(errors[extrema[-1]]) else -1]
        if len(extrema) < n + 1:
            break
        points = [grid[i] for i in extrema]
        peaks = [abs(errors[i]) for i in extrema]
        if max(peaks) < min(peaks) * mpf("1.01"):
            break
    return coefficients


def rounded(value: Any, single: bool) -> float:
    return struct.unpack("<f", struct.pack("<f", float(value)))[0] if single else float(value)


def error_of(fit: Fit, coefficients: list[Any]) -> Any:
    grid = [fit.low + (fit.high - fit.low) * i / mpf(400) for i in range(401)]
    return max(abs(fit.target(x) - mp.polyval(coefficients[::-1], x)) * fit.weight(x) for x in grid)


def fit_rounded(fit: Fit, degree: int, single: bool) -> tuple[list[float], Any]:
    coefficients = remez(fit, list(range(degree + 1)), [])
    for done in range(1, degree + 2):
        exact = coefficients[done - 1]
        coefficients[done - 1] = mpf(rounded(exact, single))
        if fit.pair and done == 1:
            coefficients[0] += mpf(rounded(exact - coefficients[0], single))
        if done <= degree:
            fixed = list(enumerate(coefficients[:done]))
            again = [*coefficients[:done], *remez(fit, list(range(done, degree + 1)), fixed)]
            if error_of(fit, again) < error_of(fit, coefficients):
                coefficients = again
    error, first = error_of(fit, coefficients), coefficients[0]
    low = [rounded(first - mpf(rounded(first, single)), single)] if fit.pair else []
    return [*(rounded(c, single) for c in coefficients), *low], error


def odd(name: str, f: Callable[[Any], Any], third: Any, high: Any, single: int | None, double: int | None) -> Fit:
    """Return the fit of f(x) = x + x^3 P(x^2)."""

    def target(z: Any) -> Any:
        x = mp.sqrt(z)
        return (f(x) - x) / (x * z)

    def weight(z: Any) -> Any:
        x = mp.sqrt(z)
        return x * z / f(x) if z else mpf(0)

    return Fit(
        name, near_zero(target, lambda: third), lambda z: weight(z) + mpf(10) ** -6, mpf(0), high, single, double
    )


def erfcx(x: Any) -> Any:
    return mp.exp(x * x) * mp.erfc(x)


def fits() -> list[Fit]:
    ln2 = mp.log(2)
    quarter = (mp.pi / 4 * mpf("1.01")) ** 2

    def at_erfc(t: Any) -> Any:
        x = ERFC_CENTRE * (1 + t) / (1 - t)
        return (x + ERFC_CENTRE) * erfcx(x)

    def near_erfc(u: Any) -> Any:
        return erfcx(u + mpf("1.5"))

    def log_rest(skip: int) -> Callable[[Any], Any]:
        # 2 atanh(s) = s * (2 + 2/3 z + ...), without its first terms
        return lambda z: sum(mpf(2) / (2 * k + 1) * z ** (k - skip) for k in range(skip, 60))

    sine = odd("SIN", mp.sin, mpf(-1) / 6, quarter, 3, 6)
    low_t = (mpf("2.45") - ERFC_CENTRE) / (mpf("2.45") + ERFC_CENTRE)
    return [
        Fit("EXP", near_zero(lambda r: (mp.exp(r) - 1 - r) / r**2, lambda: mpf(1) / 2),
            lambda r: mpf("0.12") / mp.exp(r), -ln2 / 2 * mpf("1.01"), ln2 / 2 * mpf("1.01"), 4, 10),
        Fit("EXPM1", near_zero(lambda r: (mp.expm1(r) - r) / r**2, lambda: mpf(1) / 2),
            lambda r: mpf("0.35"),
            -ln2 / 2 * mpf("1.01"), ln2 / 2 * mpf("1.01"), 5, 11),
        Fit("LOG", log_rest(1), lambda z: z / 2 + mpf(10) ** -12, mpf(0), mpf("0.02955"), 2, 6),
        Fit("LOG_REST", log_rest(3), lambda z: z**3 / 2 + mpf(10) ** -12, mpf(0), mpf("0.02955"), None, 6),
        sine,
        Fit("COS", near_zero(lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2, lambda: mpf(1) / 24),
            lambda z: z**2 / mp.cos(mp.sqrt(z)) + mpf(10) ** -12, mpf(0), quarter, 2, 5),
        odd("TANH", mp.tanh, mpf(-1) / 3, mpf("0.4"), None, 11),
        odd("SINH", mp.sinh, mpf(1) / 6, mpf("1.01"), None, 7),
        odd("ATAN", mp.atan, mpf(-1) / 3, mpf("0.2501"), 6, 13),
        odd("ASIN", mp.asin, mpf(1) / 6, mpf("0.2501"), 5, 12),
        Fit("ERF", near_zero(lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1, lambda: 2 / mp.sqrt(mp.pi) - 1),
            lambda z: mp.sqrt(z) / mp.erf(mp.sqrt(z)) if z else mpf(1), mpf(0), mpf("1.01"), 6, 13),
        Fit("ERF_TAIL", lambda x: mp.log(mp.erfc(x)), lambda x: mp.erfc(x) / mp.erf(x), mpf("0.99"), mpf(4), 7, None),
        Fit("ERFC_NEAR", near_erfc, lambda u: 1 / near_erfc(u), mpf("-1.06"), mpf("1.06"), None, 23),
        Fit("ERFC_FAR", at_erfc, lambda t: 1 / at_erfc(t), low_t, mpf("0.75"), None, 20, True),
    ]  # fmt: skip


def constants() -> dict[str, list[float]]:
    """Return constants as sums of numbers: the first ones have trailing zeros, so that small multiples are exact."""

    def split(value: Any, kept: tuple[int, ...], single: bool) -> list[float]:
        parts, rest = [], mpf(value)
        for bits in kept:
            _, exponent = mp.frexp(rest)
            part = mp.ldexp(mp.nint(mp.ldexp(rest, bits - exponent)), exponent - bits)
            parts.append(float(part))
            rest -= part
        return [*parts, rounded(rest, single)]

    return {
        "LN2_SINGLE": split(mp.log(2), (15,), True),
        "LN2_DOUBLE": split(mp.log(2), (41,), False),
        "LN2_PAIR": split(mp.log(2), (53,), False),
        "LOG2E_PAIR": split(1 / mp.log(2), (53,), False),
        "LOG2E_PARTS": split(1 / mp.log(2), (24,), False),
        "LOG10E_PARTS": split(1 / mp.log(10), (24,), False),
        "LOG10_2": split(mp.log(2, 10), (41,), False),
        "HALF_PI_SINGLE": split(mp.pi / 2, (10, 11, 12), True),
        "HALF_PI_DOUBLE": split(mp.pi / 2, (33, 33), False),
        "HALF_PI_PAIR": split(mp.pi / 2, (53,), False),
    }


def main() -> None:
    lines = [
        '"""The polynomials of the vector mathematics, lowest power first, and constants as sums.',
        "",
        "Written by benchmarks/fit_polynomials.py, which states what each one is. The errors are those of the fit,",
        'relative to the function; rounding while they are evaluated comes on top.\n"""',
        "",
        "# fmt: off",
    ]
    for fit in fits():
        for degree, single in ((fit.single, True), (fit.double, False)):
            if degree is None:
                continue
            coefficients, error = fit_rounded(fit, degree, single)
            name = f"{fit.name}_{'SINGLE' if single else 'DOUBLE'}"
            low = f"{name}_LOW = {coefficients.pop()!r}" if fit.pair else ""
            power = float(mp.log(error, 2))
            print(f"{name:16} degree {degree:2}  error 2^{power:.1f}", flush=True)
            shown = [repr(c) for c in coefficients]
            lines += [
                f"# degree {degree} on [{float(fit.low):.6g}, {float(fit.high):.6g}], error 2^{power:.1f}",
                f"{name} = (",
            ]
            lines += [f"    {', '.join(shown[i : i + 4])}," for i in range(0, len(shown), 4)]
            lines += [")", *([low] if low else [])]
    for name, parts in constants().items():
        lines.append(f"{name} = ({', '.join(repr(p) for p in parts)})")
    lines.append(f"ERFC_CENTRE = {float(ERFC_CENTRE)!r}")
    TARGET.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
