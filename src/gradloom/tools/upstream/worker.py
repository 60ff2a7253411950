"""Answer calls of operators with a library: values, gradients, tangents, the node's name and saved fields.

Run by the interpreter of an environment with PyTorch, as a file: it needs nothing but PyTorch. It reads a line of JSON
for each call and writes one.

    {"op": ["clamp_min", "default"], "args": [{"tensor": ["float64", [1], [0.5]]}, 0.5], "kwargs": {},
     "places": [[0, null]], "ones": true}
    {"value": [[0.5]], "reverse": [[0.0]], "forward": [[0.0]], "node": "ClampMinBackward0", "saved": ["min", "self"]}
"""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any

NUMBERS = (1.0, -0.7, 0.4, 1.3, -1.1, 0.6, -0.3, 0.9, 1.2, -0.5, 0.8)  # cotangents and tangents without symmetries
SECOND = ("reverse over reverse", "forward over forward")


def answer(torch: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Return what a library computes for a call; of what it refuses, {"error": text}."""
    if not request.get("filled"):
        return _answer(torch, request)
    torch.use_deterministic_algorithms(True, warn_only=True)  # which fills new memory, too
    try:
        return _answer(torch, request)
    finally:
        torch.use_deterministic_algorithms(False)


def _answer(torch: Any, request: dict[str, Any]) -> dict[str, Any]:
    name, overload = request["op"]
    args = [_given(torch, v) for v in request["args"]]
    kwargs = {k: _given(torch, v) for k, v in request["kwargs"].items()}
    places = request["places"]

    def read(key: Any, index: int | None) -> Any:
        value = kwargs[key] if isinstance(key, str) else args[key]
        return value if index is None else value[index]

    def call(*tensors: Any) -> tuple[Any, ...]:
        given, named = list(args), dict(kwargs)
        for (key, index), tensor in zip(places, tensors, strict=True):
            holder: Any = named if isinstance(key, str) else given
            if index is None:
                holder[key] = tensor
            else:
                holder[key] = [tensor if n == index else t for n, t in enumerate(holder[key])]
        return tuple(_floats(torch, function(*given, **named)))

    def direction(like: Any, turn: int) -> Any:
        if turn == request.get("infinite", -1) + 5:
            return torch.full_like(like, float("inf"))
        if request.get("ones"):
            return torch.ones_like(like)
        count = like.numel() * (2 if like.is_complex() else 1)
        flat = torch.tensor([NUMBERS[(n + 3 * turn) % len(NUMBERS)] for n in range(count)], dtype=torch.float64)
        made = torch.view_as_complex(flat.reshape(-1, 2)) if like.is_complex() else flat
        return made.reshape(like.shape).to(like.dtype)

    def gradients(*chosen: int) -> list[Any]:
        inputs = [x.clone().requires_grad_(n in chosen) for n, x in enumerate(tensors)]
        outputs = [(n, o) for n, o in enumerate(call(*inputs)) if o.requires_grad]
        if not outputs:
            raise RuntimeError("not differentiable")
        node = outputs[0][1].grad_fn
        found["differentiable"] = [n for n, _ in outputs]
        found.setdefault("node", node.name())
        found.setdefault("saved", sorted(a[7:] for a in dir(node) if a.startswith("_saved_")))
        cotangents = [direction(o.detach(), n) for n, o in outputs]
        leaves = [inputs[n] for n in chosen]
        got = torch.autograd.grad([o for _, o in outputs], leaves, cotangents, allow_unused=True)
        return [None if g is None else _numbers(torch, g) for g in got]

    def quotients() -> list[list[float]]:
        """Return the gradients by central differences of the values; nan at kinks, where PyTorch decides."""

        def total(*inputs: Any) -> float:
            outputs = call(*inputs)
            return sum(float((outputs[n] * direction(outputs[n], n)).sum()) for n in found["differentiable"])

        def slope(place: int, element: int) -> float:
            ends = []
            for step in (1e-5, 0, -1e-5):
                inputs = [x.clone() for x in tensors]
                inputs[place].reshape(-1)[element] += step
                ends.append(total(*inputs))
            sides = (ends[0] - ends[1]) / 1e-5, (ends[1] - ends[2]) / 1e-5
            is_smooth = abs(sides[0] - sides[1]) <= 1e-3 * max(1.0, *map(abs, sides))
            return sum(sides) / 2 if is_smooth else float("nan")

        return [[slope(n, i) for i in range(x.numel())] for n, x in enumerate(tensors)]

    def second(mode: str) -> list[Any]:
        cotangents = tuple(direction(o, n) for n, o in enumerate(call(*tensors)))
        tangents = tuple(direction(x, n + 5) for n, x in enumerate(tensors))
        again = tuple(direction(x, n + 2) for n, x in enumerate(tensors))
        if mode == SECOND[0]:
            got = torch.func.vjp(lambda *xs: torch.func.vjp(call, *xs)[1](cotangents), *tensors)[1](again)
        else:
            got = torch.func.jvp(lambda *xs: torch.func.jvp(call, xs, tangents)[1], tuple(tensors), again)[1]
        return [_numbers(torch, t) for t in got]

    found: dict[str, Any] = {}
    try:
        function = getattr(getattr(torch.ops.aten, name), overload)
        tensors = [read(*place) for place in places]
        found["value"] = [_numbers(torch, o) for o in call(*tensors)]
    except Exception as error:
        return {"value": _said(error)}
    try:
        found["reverse"] = gradients(*range(len(tensors)))
    except Exception:
        found["reverse"] = []
        for n in range(len(tensors)):
            try:
                found["reverse"] += gradients(n)
            except Exception as error:
                found["reverse"].append(_said(error))
    try:
        tangents = tuple(direction(x, n + 5) for n, x in enumerate(tensors))
        found["forward"] = [_numbers(torch, t) for t in torch.func.jvp(call, tuple(tensors), tangents)[1]]
    except Exception as error:
        found["forward"] = _said(error)
    if request.get("quotients"):
        found["quotients"] = quotients()
    for mode in SECOND if request.get("second") else ():
        try:
            found[mode] = second(mode)
        except Exception as error:
            found[mode] = _said(error)
    return found


def _given(torch: Any, value: Any) -> Any:
    if isinstance(value, list):
        return [_given(torch, v) for v in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "object":
        return getattr(torch, content)
    if kind == "complex":
        return complex(*content)
    dtype, shape, numbers = content
    if dtype.startswith("complex"):
        made = torch.tensor(numbers, dtype=torch.float64).reshape(-1, 2)
        return torch.view_as_complex(made).to(getattr(torch, dtype)).reshape(shape)
    return torch.tensor(numbers, dtype=getattr(torch, dtype)).reshape(shape)


def _floats(torch: Any, value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in _floats(torch, v)]
    is_float = isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())
    return [value] if is_float else []


def _numbers(torch: Any, tensor: Any) -> list[float]:
    tensor = tensor.detach()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    found: list[float] = tensor.to(torch.float64).reshape(-1).tolist()
    return found


def _said(error: Exception) -> dict[str, str]:
    return {"error": " ".join(f"{type(error).__name__}: {error}".split())[:160]}


if __name__ == "__main__":
    import torch  # type: ignore[import-not-found, unused-ignore]

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    print(json.dumps({"version": str(torch.__version__)}), flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(torch, json.loads(line))), flush=True)
