"""`gradloom emit`: the text of a module, and what is refused. tests/conformance/test_emit.py runs modules."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gradloom.codegen.derivatives.specification import load
from gradloom.codegen.errors import SpecError
from gradloom.codegen.target import own, project
from gradloom.tools import kept
from gradloom.tools.cli import main
from gradloom.tools.emit.command import module


def package(folder: Path, operators: str, derivatives: str = "", formulas: str = "", kernels: str = ""):
    """Write a package `tenops`, and return its specification."""
    source = folder / "src" / "tenops"
    files = {"native_functions.yaml": operators, "derivatives.yaml": derivatives}
    files |= {"formulas/more.py": formulas, "kernels/more.py": kernels}
    for name, text in files.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(text)
    (folder / "pyproject.toml").write_text('[tool.gradloom]\npackage = "src/tenops"\n')
    target = project(folder)
    assert target is not None
    return load(target)


SQUARE = """
- func: square(Tensor self, float factor=2.0) -> Tensor
  tags: pointwise
  kernel: more.square
"""
SQUARE_DERIVATIVE = """
- name: square(Tensor self, float factor=2.0) -> Tensor
  self: {}
  result: auto_element_wise
"""


@pytest.mark.parametrize("kind", ["torch", "jax"])
def test_a_module_is_python_without_gradloom(kind):
    text = module(kind, kept.load(own()), None, ["gelu", "hypot", "atan2", "pow.Tensor_Tensor"])
    tree = ast.parse(text)
    imported = {n.module if isinstance(n, ast.ImportFrom) else n.names[0].name
                for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom)}  # fmt: skip
    assert {str(name).split(".")[0] for name in imported} <= {"__future__", "functools", "math", "cmath", "numpy", kind}
    names = {n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    assert {"gelu", "gelu_backward", "hypot", "atan2", "pow", "quotient_or_zero"} <= names
    called = {n.func.id for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
    assert {c for c in called if c.startswith("_")} <= names
    assert "#   self: pow_backward_self(grad, self, exponent)" in text and "BSD 3-Clause" in text


def test_the_text_of_an_operator():
    text = module("torch", kept.load(own()), None, ["softplus"])
    shown = text[text.index("# --- softplus ---") : text.index("# --- softplus_backward ---")]
    assert shown.rstrip() == SOFTPLUS.strip()


SOFTPLUS = '''
# --- softplus ---
#
# - func: softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor
#   scalar: where(self * beta > threshold, self, log1p(exp(self * beta)) / beta)
#   kernel: activation.softplus
# - name: softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor
#   self: softplus_backward(grad, self, beta, threshold)
#   result: auto_element_wise


def softplus(self, beta=1, threshold=20):
    """Return where(self * beta > threshold, self, log1p(exp(self * beta)) / beta)."""
    return torch.ops.softplus.softplus(self, beta, threshold)


def _softplus_kernel(self, beta=1, threshold=20):
    self, common = _promoted(self)
    return _rounded(torch.where(self * beta > threshold, self, torch.log1p(torch.exp(self * beta)) / beta), common)


class _Softplus(torch.autograd.Function):
    @staticmethod
    def forward(self, beta, threshold):
        with torch._C._AutoDispatchBelowAutograd():
            return torch.ops.softplus.softplus(self, beta, threshold)

    @staticmethod
    def setup_context(ctx, inputs, output):
        self, beta, threshold = inputs
        result = output
        ctx.save_for_backward(self)
        ctx.save_for_forward(self, result)
        ctx.values = (beta, threshold,)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, grad):
        if grad is None:
            return None, None, None
        (self,) = ctx.saved_tensors
        beta, threshold = ctx.values
        grad_of_self = None
        # self: softplus_backward(grad, self, beta, threshold)
        if ctx.needs_input_grad[0]:
            grad_of_self = torch.ops.softplus.softplus_backward(grad, self, beta, threshold)
        return grad_of_self, None, None

    @staticmethod
    def jvp(ctx, self_t, _beta, _threshold):
        # Derivatives of tangents by outer levels of forward mode are off in here, unless switched on.
        with torch.autograd.forward_ad._set_fwd_grad_enabled(True):
            self, result = _primals(ctx)
            beta, threshold = ctx.values
            self_p = self
            # result: auto_element_wise
            tangent_of_result = torch.ops.softplus.softplus_backward(self_t.conj(), self_p, beta, threshold).conj()
            return _tangent_of(result, tangent_of_result)

    @staticmethod
    def vmap(info, in_dims, *inputs):
        return _vmap_elements(_Softplus, in_dims, inputs)


def _softplus_differentiated(self, beta=1, threshold=20):
    return _Softplus.apply(self, beta, threshold)


_register('softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor', _softplus_kernel, _softplus_kernel, _softplus_differentiated)
'''  # noqa: E501


def test_a_numpy_kernel_and_what_it_calls_are_carried_along(tmp_path):
    kernels = '"""K."""\nimport numpy as np\n\nTWO = 2\n\n\ndef _twice(x):\n    return TWO * x\n\n\n'
    kernels += "def square(x, factor):\n    return np.square(x.clip(-9, 9).astype(x.dtype)) * _twice(factor)\n"
    formulas = "import gradloom\n\n\ndef slope(grad, self, factor):\n"
    formulas += "    return gradloom.ops.tenops.square(grad, factor) * gradloom.exp(self)\n"
    found = package(tmp_path, SQUARE, SQUARE_DERIVATIVE.format("slope(grad, self, factor)"), formulas, kernels)
    for kind, call in (("torch", "torch.ops.tenops.square(grad, factor) * torch.exp(self)"),
                       ("jax", "square(grad, factor) * jnp.exp(self)")):  # fmt: skip
        text = module(kind, found, kept.load(own()), [])
        ast.parse(text)
        assert "TWO = 2" in text and "def _twice(x):" in text and call in text
        assert "np.square(x.clip(-9, 9).astype(x.dtype))" in text  # arrays stay arrays
        assert "Kernels of NumPy run on the CPU" in text


@pytest.mark.parametrize(
    ("formula", "helper", "message"),
    [
        (
            "slope(grad, self)",
            "from gradloom.core.engine import Engine\n\n\ndef slope(grad, self):\n    return Engine(grad)\n",
            "derivatives.yaml:3:9: error: `square` cannot be written for torch: `Engine` of gradloom.core",
        ),
        (
            "slope(grad, self)",
            "def slope(grad, self):\n    return nothing(grad)\n",
            "`nothing` has no counterpart in torch in `slope` (tenops/formulas/more.py:1)",
        ),
    ],
)
def test_what_has_no_counterpart_is_an_error_at_its_place(tmp_path, formula, helper, message):
    kernels = "def square(x, factor):\n    return x * x * factor\n"
    found = package(tmp_path, SQUARE, SQUARE_DERIVATIVE.format(formula), helper, kernels)
    base = kept.load(own())
    with pytest.raises(SpecError) as raised:
        module("torch", found, base, [])
    assert message in str(raised.value), str(raised.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("sofplus", "there is no operator `sofplus`; did you mean `softplus`?"),
        ("pow", "`pow` has overloads: pow.Tensor_Scalar, pow.Tensor_Tensor, pow.Scalar"),
        ("einsum", "`einsum` is made of other operators, by"),
        ("transpose.int", "`transpose.int` returns a view"),
        ("bernoulli", "`bernoulli` draws random numbers"),
        ("cat", "`cat` has a list of tensors"),
        ("max.dim", "`argmax`, the number of an element, has no counterpart"),
    ],
)
def test_what_cannot_be_written_is_refused(name, message, capsys, tmp_path):
    assert main(["emit", "torch", name, "-o", str(tmp_path / "out.py")]) in (1, 2)
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_file_of_someone_else_is_not_replaced(capsys, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("mine = 1\n")
    assert main(["emit", "torch", "tanh", "-o", str(path)]) == 2
    assert "--force replaces it" in capsys.readouterr().err and path.read_text() == "mine = 1\n"
    assert main(["emit", "torch", "tanh", "-o", str(path), "--force"]) == 0
    assert main(["emit", "torch", "exp", "-o", str(path)]) == 0  # its own file is
    assert "def exp(self):" in path.read_text() and list(tmp_path.iterdir()) == [path]


def test_a_package_without_operators_is_refused(capsys, tmp_path):
    package(tmp_path, "# nothing\n")
    assert main(["emit", "jax", "--package", str(tmp_path)]) == 2
    assert "has no operators with a kernel or definition" in capsys.readouterr().err


JAX = """
import jax, sys
jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp
from jax.test_util import check_grads
sys.path.insert(0, sys.argv[1])
import emitted as m
x, y = jnp.array([[-0.7, 0.4, 1.3]]), jnp.array([[0.6], [1.7]])
for f, xs in [(m.softplus, (x,)), (m.hypot, (x, y)), (m.atan2, (x, y)), (lambda a: m.gelu(a, approximate="tanh"), (x,)),
              (lambda a: m.clamp(a, max=0.5), (x,)), (m.tanh, (x + 0.3j,)), (lambda a: m.logsumexp(a, -1), (x,)),
              (lambda a: m.var_mean(a, [1]), (x,)), (m.sinc, (x,)), (m.pow, (y, x))]:
    check_grads(f, xs, order=2)
    jax.jit(f)(*xs)
print(jax.vmap(m.hypot)(x, x).shape, jax.hessian(lambda a: m.softplus(a).sum())(x).shape)
"""
OF_JAX = [
    "softplus",
    "hypot",
    "atan2",
    "gelu",
    "clamp",
    "tanh",
    "logsumexp",
    "var_mean.correction",
    "sinc",
    "pow.Tensor_Tensor",
]


def test_emitted_functions_pass_the_checks_of_jax(tmp_path):
    """Run with a Python that has JAX: GRADLOOM_JAX=/path/to/python; tested with 0.10.2."""
    python = os.environ.get("GRADLOOM_JAX")
    if python is None:
        pytest.importorskip("jax", reason="JAX is an extra: GRADLOOM_JAX names a Python that has it")
        python = sys.executable
    (tmp_path / "emitted.py").write_text(module("jax", kept.load(own()), None, OF_JAX))
    done = subprocess.run([python, "-c", JAX, str(tmp_path)], capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout.strip() == "(1, 3) (1, 3, 1, 3)", done.stderr
