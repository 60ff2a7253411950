"""Samples of special functions whose domains a schema cannot express."""

from __future__ import annotations

import gradloom


def tensor(*values):
    return gradloom.tensor(values, dtype=gradloom.float64)


def calls(*samples):
    def found():
        for sample in samples:
            yield sample, {}

    return found


ORDERS, POINTS = tensor(1.5, 2.5, 4.0), tensor(0.4, 1.3, 2.2)

# the incomplete gamma functions have no derivative with respect to the first input, which integers do not ask for
INTEGERS = gradloom.tensor([1, 2, 4])

SAMPLES = {
    "special_gammainc": calls((INTEGERS, POINTS)),
    "special_gammaincc": calls((INTEGERS, POINTS)),
    "special_zeta": calls((ORDERS, POINTS), (ORDERS[:1], POINTS)),
    "special_zeta.self_scalar": calls((2.5, POINTS)),
    "special_zeta.other_scalar": calls((ORDERS, 1.3)),
    "special_i1": calls((tensor(-1.0, 0.0, 2.0),), (POINTS,)),
    "special_i1e": calls((tensor(-1.0, 0.3, 2.0),), (POINTS,)),
    "special_xlog1py": calls((POINTS, tensor(-0.5, 0.3, 2.0)), (tensor(0.0, 1.0, 2.0), POINTS)),
    "special_xlogy": calls((POINTS, ORDERS)),
}
