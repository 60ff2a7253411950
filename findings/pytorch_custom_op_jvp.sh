#!/usr/bin/env bash
# PyTorch 2.13.0 (CPU): torch.func.jvp of an operator that torch.library.custom_op made, with register_autograd, returns a
# tangent of zeros without an error, where torch.func.grad of it raises; torch.func.jvp of torch.func.jvp of an
# autograd.Function with setup_context and jvp returns zeros, too.
# Expected: the derivative, or an error; second derivatives 6 x of x ** 3, as torch.func.hessian gives them.
# Seen: a tangent of 0 for sin at 1, and 0 for the second derivative of the cube at 2.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --retries 0 --extra-index-url https://download.pytorch.org/whl/cpu torch==2.13.0+cpu numpy==2.4.6
"$folder/venv/bin/python" - <<'PY'
import torch

@torch.library.custom_op("findings::sine", mutates_args=())
def sine(x: torch.Tensor) -> torch.Tensor:
    return x.sin()

sine.register_fake(torch.empty_like)
sine.register_autograd(
    lambda ctx, grad: grad * ctx.saved_tensors[0].cos(),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
)

class Cube(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x**3

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 3 * x * x * grad

    @staticmethod
    def jvp(ctx, tangent):
        (x,) = ctx.saved_tensors
        return 3 * x * x * tangent

def slope(f):
    return lambda x: torch.func.jvp(f, (x,), (torch.ones_like(x),))[1]

one, two = torch.tensor(1.0), torch.tensor(2.0)
try:
    torch.func.grad(sine)(one)
    raised = False
except RuntimeError:
    raised = True
first, second = slope(sine)(one), slope(slope(Cube.apply))(two)
by_hessian = torch.func.jvp(torch.func.grad(Cube.apply), (two,), (torch.ones(()),))[1]
print(torch.__version__, raised, float(first), float(second), float(by_hessian))
assert float(by_hessian) == 12.0, "forward over reverse is right"
assert raised and float(first) == 0.0, "transforms of a custom operator have changed"
assert float(second) == 0.0, "forward over forward of an autograd.Function is right now"
PY
