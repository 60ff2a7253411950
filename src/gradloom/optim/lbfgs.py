"""L-BFGS."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradloom as gl
from gradloom import Tensor
from gradloom.optim._arrays import number
from gradloom.optim._line_search import _cubic_interpolate as _cubic_interpolate, strong_wolfe
from gradloom.optim._rule import options
from gradloom.optim.optimizer import Optimizer, ParamsT

__all__ = ["LBFGS"]


class LBFGS(Optimizer):
    """L-BFGS (Liu and Nocedal 1989), optionally with a line search for the strong Wolfe conditions.

    With g the gradient of all parameters as one vector, and H the inverse Hessian as approximated from the last
    `history_size` changes of p and g::

        d = -H g
        p = p + t * d                                 # t = lr, or the length found by the line search

    A step makes up to `max_iter` such iterations and calls its closure for each. All parameters are in one group.

    Args:
        params: parameters.
        lr: learning rate; the first iteration's is at most 1 / sum(|g|) times it.
        max_iter: maximum number of iterations per step.
        max_eval: maximum number of closure calls per step; 1.25 * max_iter by default.
        tolerance_grad: stop if no element of g is larger in magnitude.
        tolerance_change: stop if neither the parameters nor the loss change by more.
        history_size: number of changes kept.
        line_search_fn: "strong_wolfe" or None.
        maximize: maximize the objective instead of minimizing it.

    Raises:
        ValueError: for a negative lr or several parameter groups.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
        *,
        maximize: bool = False,
    ) -> None:
        max_eval = max_iter * 5 // 4 if max_eval is None else max_eval
        names = "lr max_iter max_eval tolerance_grad tolerance_change history_size line_search_fn maximize"
        super().__init__(params, options(locals(), names))
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params = self.param_groups[0]["params"]

    def step(self, closure: Callable[[], Any]) -> Any:
        """Run up to `max_iter` iterations; return the loss before the first.

        Args:
            closure: function that zeroes the gradients, computes the loss and its gradients, and returns the loss.
        """
        with gl.no_grad():
            return self._step(lambda: self._loss_of(closure))

    def _step(self, closure):
        group = self.param_groups[0]
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first_loss = closure()
        loss, gradient = self._signed(first_loss), self._flat_gradient()
        evaluations = 1
        state["func_evals"] += 1
        if _largest(gradient) <= group["tolerance_grad"]:
            return first_loss
        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            direction = self._direction(state, gradient, group["history_size"])
            state["d"], state["prev_flat_grad"], state["prev_loss"] = direction, gradient.clone(), loss
            cautious = min(1.0, 1.0 / float(gradient.abs().sum())) if state["n_iter"] == 1 else 1
            state["t"] = cautious * group["lr"]
            slope = float(gradient.dot(direction))
            if slope > -group["tolerance_change"]:
                break
            last = iteration == group["max_iter"]
            loss, gradient, calls = self._move(closure, state, loss, gradient, slope, last)
            evaluations += calls
            state["func_evals"] += calls
            if (
                last
                or evaluations >= group["max_eval"]
                or _largest(gradient) <= group["tolerance_grad"]
                or _largest(direction * state["t"]) <= group["tolerance_change"]
                or abs(loss - state["prev_loss"]) < group["tolerance_change"]
            ):
                break
        return first_loss

    def _direction(self, state, gradient, history_size):
        """Return minus the gradient times the approximate inverse Hessian, by the two-loop recursion."""
        if state["n_iter"] == 1:
            state["old_dirs"], state["old_stps"], state["ro"] = [], [], []
            state["H_diag"] = 1
            return gradient.neg()
        changes, steps, inverses = state["old_dirs"], state["old_stps"], state["ro"]
        change, step = gradient - state["prev_flat_grad"], state["d"] * state["t"]
        curvature = change.dot(step)
        if float(curvature) > 1e-10:
            if len(changes) == history_size:
                for history in (changes, steps, inverses):
                    history.pop(0)
            changes.append(change)
            steps.append(step)
            inverses.append(1.0 / curvature)
            state["H_diag"] = curvature / change.dot(change)
        direction = gradient.neg()
        coefficients = state["al"] = [None] * history_size
        for i in reversed(range(len(changes))):
            coefficients[i] = steps[i].dot(direction) * inverses[i]
            direction.add_(changes[i], alpha=-float(coefficients[i]))
        direction = direction * state["H_diag"]
        for i in range(len(changes)):
            correction = changes[i].dot(direction) * inverses[i]
            direction.add_(steps[i], alpha=float(coefficients[i] - correction))
        return direction

    def _move(self, closure, state, loss, gradient, slope, last):
        """Take one step along state["d"]; return (loss, gradient, closure calls) after it."""
        direction, length = state["d"], number(state["t"])
        search = self.param_groups[0]["line_search_fn"]
        if search is None:
            self._add(direction, length)
            # The loss after the last iteration is not used.
            return (loss, gradient, 0) if last else (self._signed(closure()), self._flat_gradient(), 1)
        if search != "strong_wolfe":
            raise RuntimeError("only 'strong_wolfe' is supported")
        start = [parameter.clone() for parameter in self._params]

        def at(length):
            self._add(direction, length)
            found = self._signed(closure()), self._flat_gradient()
            for parameter, value in zip(self._params, start, strict=True):
                parameter.copy_(value)
            return found

        loss, gradient, length, calls = strong_wolfe(at, length, direction, loss, gradient, slope)
        self._add(direction, length)
        state["t"] = length
        return loss, gradient, calls

    def _flat_gradient(self):
        parts = []
        for parameter in self._params:
            gradient = parameter.grad
            part = gl.zeros_like(parameter) if gradient is None else gradient.to_dense()
            parts.append((gl.view_as_real(part) if part.is_complex() else part).reshape(-1))
        found = gl.cat(parts)
        return -found if self.param_groups[0].get("maximize") else found

    def _signed(self, loss):
        """Return the loss to minimize as a number."""
        return -float(loss) if self.param_groups[0].get("maximize") else float(loss)

    def _add(self, direction, length):
        """Add `length` times the vector `direction` to the parameters."""
        start = 0
        for parameter in self._params:
            values = gl.view_as_real(parameter) if parameter.is_complex() else parameter
            stop = start + values.numel()
            values.add_(direction.narrow(0, start, stop - start).view_as(values), alpha=length)
            start = stop


def _strong_wolfe(
    obj_func: Callable[[Tensor, Any, Tensor], tuple[float, Tensor]],
    x: Tensor,
    t: float,
    d: Tensor,
    f: float,
    g: Tensor,
    gtd: float | Tensor,
    c1: float = 1e-4,
    c2: float = 0.9,
    tolerance_change: float = 1e-9,
    max_ls: int = 25,
) -> tuple[float, Tensor, float, int]:
    """Search along a direction for a length that fulfills the strong Wolfe conditions.

    Args:
        obj_func: function of (x, length, d) that returns loss and gradient at x + length * d.
        x: where the search starts: a vector.
        t: first length to try.
        d: the direction.
        f, g: loss and gradient at x.
        gtd: slope at x along d.
        c1, c2: the decrease and the flatness that are required, as fractions of the slope.
        tolerance_change: smallest interval that is still narrowed.
        max_ls: maximum number of evaluations after the first.

    Returns:
        (loss, gradient, length, evaluations) of the accepted length, or of the best one found.
    """
    return strong_wolfe(
        lambda length: obj_func(x, length, d), number(t), d, f, g, float(gtd), tolerance_change, max_ls, c1, c2
    )


def _largest(vector):
    return float(vector.abs().max())
