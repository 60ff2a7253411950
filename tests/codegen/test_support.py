"""How support is found without running anything: which operators functions call, and what flows into them.

What the rows say of the operators of gradloom is compared with what these do in tests/tools/test_support.py.
"""

from __future__ import annotations

import ast
import textwrap

import pytest

from gradloom.codegen.outputs.support import Flow
from gradloom.codegen.reading.python_files import Functions


@pytest.fixture
def functions(tmp_path):
    """`functions(name=source, ...)`: a folder of files. Several dicts make several folders of packages p0, p1 ..."""

    def make(*folders):
        paths = []
        for number, files in enumerate(folders):
            path = tmp_path / f"p{number}" / "formulas"
            path.mkdir(parents=True)
            for name, source in files.items():
                (path / f"{name}.py").write_text(textwrap.dedent(source))
            paths.append(path)
        return Functions(*paths)

    return make


# --- calls -----------------------------------------------------------------------------------------------------------


def test_calls_of_operators_and_methods_are_found_through_other_functions(functions):
    found = functions(
        {
            "a": """
        from .. import _operators as ops
        from ._b import shared as other
        from math import log
        def f(x):
            y = ops.sin(x) if x.dim() else _own(x)
            return other(y) + [ops.where(c, 0, 1) for c in y][0]
        def _own(x):
            return x.cos().shape
    """,
            "_b": """
        from .. import _operators
        def shared(x):
            return _operators.exp(x)
    """,
        }
    )
    assert found.calls("a", "f") == {"sin", "dim", "cos", "where", "exp"}
    assert found.home("f") == "a" and found.home("shared") is None and found.home("_own") is None
    assert found.find("other", "a")[0] == "_b" and found.origin("a", "other") == ("_b", "shared")
    assert found.find("log", "a") is None and found.calls("a", "log") == frozenset()


def test_modules_in_folders_have_dotted_names(tmp_path):
    inner = tmp_path / "formulas" / "family"
    inner.mkdir(parents=True)
    (inner / "__init__.py").write_text("")
    (inner / "first.py").write_text("from .second import g\nfrom ..other import h\ndef f(x): return g(h(x))\n")
    (inner / "second.py").write_text("def g(x): return x.sin()\n")
    (tmp_path / "formulas" / "other.py").write_text("def h(x): return x.cos()\n")
    found = Functions(tmp_path / "formulas")
    assert found.calls("family.first", "f") == {"sin", "cos"} and found.home("g") == "family.second"


def test_functions_of_modules_are_no_methods(functions):
    found = functions(
        {
            "a": """
        import math
        import numpy as np
        def f(x):
            from math import log
            return x.sin() * math.prod(x.shape) * np.exp(2) * log(3)
    """
        }
    )
    assert found.calls("a", "f") == {"sin"}


def test_functions_that_call_one_another_end(functions):
    found = functions(
        {
            "a": """
        def f(x):
            return g(x).sin()
        def g(x):
            return f(x).cos()
    """
        }
    )
    assert found.calls("a", "f") == {"sin", "cos"}


def test_what_is_assigned_counts_as_a_function(functions):
    found = functions(
        {
            "a": """
        from functools import partial
        def _alias(name):
            def call(*args):
                return getattr(ops, name)(*args)
            return call
        def _conv(dims, x):
            return ops.convolution(x)
        first, second = _alias("exp2"), _alias("log")
        one, two = [partial(_conv, d) for d in (1, 2)]
        third: object = None
    """
        }
    )
    assert "exp2" in found.calls("a", "first") and "log" not in found.calls("a", "first")
    assert found.calls("a", "two") == {"convolution"}
    assert isinstance(found.definition("a", "second"), ast.Call) and found.definition("a", "missing") is None


def test_modules_of_one_name_in_two_packages_stay_apart(functions):
    found = functions(
        {"a": "from ._part import g\ndef f(x): return g(x)\n", "_part": "def g(x): return x.sin()\n"},
        {"a": "from ._part import g\ndef h(x): return g(x)\n", "_part": "def g(x): return x.cos()\n"},
    )
    assert found.home("f") == "a" and found.home("h") == "p1.a"
    assert found.calls("a", "f") == {"sin"} and found.calls("p1.a", "h") == {"cos"}
    assert found.home("g") is None


# --- flow ------------------------------------------------------------------------------------------------------------

ANSWERS = {"sin": "yes", "stop": "no", "isnan": "none", "half": "part"}
HELPERS = """
    def straight(a, b):
        return ops.stop(a)
    def second(a, b):
        return ops.stop(b)
    def keyword(a, *, b=None):
        return ops.stop(b)
    def several(*all):
        return ops.stop(all[0])
    def assigns(a, b):
        c, (d, e) = b, (a, b)
        c = c + 1
        return ops.stop(d)
    def loops(a, b):
        total = b
        for part in a:
            b = b + part
        return ops.stop(b)
    def later(a, b):
        c = 0
        while b:
            ops.stop(c)
            c = c + a
        return b
    def branches(a, b):
        if b:
            a = a + 1
        else:
            ops.stop(a)
        return b
    def metadata(a, b):
        return ops.stop(b.new(a.shape, a.dim(), a.size(0), a.dtype))
    def compares(a, b):
        return ops.stop(a > 0)
    def detached(a, b):
        return ops.stop(ops.isnan(a))
    def comprehension(a, b):
        return [ops.stop(x) for x in a]
    def itself(a, b):
        return itself(a, b)
    def ignores(a, b):
        return b
    def through(a, b):
        return ops.stop(ignores(a, b))
"""


def flow(functions, formula, names):
    found = Flow(functions({"h": HELPERS}), ANSWERS.get)
    result = found.expression(ast.parse(formula, mode="eval").body, names, None)
    return result, found.stopped


@pytest.mark.parametrize(
    ("formula", "stops"),
    [
        ("ops.stop(grad)", True),
        ("grad.stop()", True),
        ("ops.stop(index)", False),
        ("index.stop()", False),
        ("ops.stop(index) * grad", False),
        ("ops.stop(index + grad)", True),
        ("ops.stop(ops.sin(grad))", True),
        ("ops.stop(ops.half(grad))", True),
        ("ops.stop(ops.isnan(grad))", False),
        ("ops.stop(grad.shape)", False),
        ("ops.stop(grad.size(0))", False),
        ("ops.stop(grad.real)", True),
        ("ops.stop(grad.to(index.dtype))", True),
        ("ops.stop(grad > 0)", False),
        ("ops.stop(grad if index else 0)", True),
        ("ops.stop(index if grad else 0)", False),
        ("ops.sin(grad) if ops.stop(grad) else 0", True),
        ("ops.stop([g for g in grad])", True),
        ("ops.stop([1 for g in grad])", False),
        ("ops.sin(index, weight=ops.stop(grad))", True),
        ("-ops.stop(grad)[0]", True),
        ("straight(grad, index)", True),
        ("straight(index, grad)", False),
        ("second(index, grad)", True),
        ("keyword(index, b=grad)", True),
        ("keyword(grad, b=index)", False),
        ("several(grad)", True),
        ("assigns(grad, index)", True),
        ("assigns(index, grad)", False),
        ("loops(grad, index)", True),
        ("later(grad, index)", True),
        ("branches(grad, index)", True),
        ("metadata(grad, index)", False),
        ("compares(grad, index)", False),
        ("detached(grad, index)", False),
        ("comprehension(grad, index)", True),
        ("itself(grad, index)", False),
        ("through(grad, index)", False),
        ("through(index, grad)", True),
        ("unknown(grad)", False),
    ],
)
def test_what_flows_into_an_operator_without_a_derivative(functions, formula, stops):
    assert flow(functions, formula, {"grad"})[1] == ({"stop"} if stops else set())


@pytest.mark.parametrize(
    ("formula", "depends"),
    [
        ("grad", True),
        ("index", False),
        ("grad * index", True),
        ("ops.sin(grad)", True),
        ("ops.isnan(grad)", False),
        ("ops.stop(grad)", False),
        ("ignores(grad, index)", False),
        ("ignores(index, grad)", True),
        ("unknown(grad)", True),
        ("grad.shape", False),
        ("(index, grad)", True),
        ("None", False),
    ],
)
def test_what_depends_on_what_is_differentiated(functions, formula, depends):
    assert flow(functions, formula, {"grad"})[0] is depends
