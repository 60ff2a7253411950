"""gradloom.ops.define: operators and derivatives from YAML in memory."""

import inspect
import re
import traceback
from pathlib import Path

import numpy as np
import pytest

import gradloom
from gradloom import ops
from gradloom.autograd import forward_ad, gradcheck, gradgradcheck
from gradloom.codegen.errors import SpecError
from gradloom.core.node import zeros_of

SOFTABS = """
- func: softabs(Tensor self, float eps=0.1) -> Tensor
  variants: function, method
  autogen: softabs_, softabs.out
  tags: pointwise
  type_promotion: int_to_float
  kernel: xp.sqrt(self * self + eps * eps)
- name: softabs(Tensor self, float eps=0.1) -> Tensor
  self: grad * self / result
  result: auto_element_wise
"""
PLAIN = """
- func: {name}(Tensor self) -> Tensor
  kernel: {kernel}
- name: {name}(Tensor self) -> Tensor
  self: {formula}
  result: auto_element_wise
"""
WRONG_MUL = """
- name: mul.Tensor(Tensor self, Tensor other) -> Tensor
  override: true
  self: grad * other * {factor}
  other: grad * self
  result: other_t * self_p + self_t * other_p * {factor}
"""


@pytest.fixture
def define():
    """`gradloom.ops.define`, whose definitions end with the test."""
    made = []

    def define(*args, **kwargs):
        made.append(ops.define(*args, **kwargs))
        return made[-1]

    yield define
    for definition in reversed(made):
        definition.remove()


def double(*values, requires_grad=True):
    return gradloom.tensor(values, dtype=gradloom.float64, requires_grad=requires_grad)


def test_an_operator_from_yaml_is_a_function_of_its_namespace_and_a_method(define):
    definition = define(SOFTABS)
    x = double(-3.0, 0.0, 4.0)
    for y in (ops.user.softabs(x), x.softabs(), ops.user.softabs.default(x), gradloom.ops.user.softabs(x, eps=0.1)):
        assert y.tolist() == pytest.approx([9.01**0.5, 0.1, 16.01**0.5])
        assert y.grad_fn.name() == "SoftabsBackward0"
    assert definition.operators == ("softabs", "softabs_")
    assert ops.user.softabs.overloads() == ["default", "out"]
    assert not hasattr(gradloom, "softabs")


def test_its_derivatives_are_right_in_every_direction(define):
    define(SOFTABS)
    x = double(-3.0, 0.5, 4.0)
    assert gradcheck(ops.user.softabs, (x,), check_forward_ad=True)
    assert gradgradcheck(ops.user.softabs, (x,), check_fwd_over_rev=True)


def test_its_variants_write_in_place_and_to_out(define):
    define(SOFTABS)
    x = double(-3.0, 4.0)
    y = x.clone()
    assert y.softabs_() is y
    y.sum().backward()
    assert x.grad.tolist() == pytest.approx([-3 / 9.01**0.5, 4 / 16.01**0.5])
    assert ops.user.softabs_(x.detach().clone()).tolist() == y.tolist()
    out = gradloom.empty(2, dtype=gradloom.float64)
    assert ops.user.softabs(x.detach(), out=out) is out
    assert out.tolist() == y.tolist()


def test_it_composes_with_hooks_and_saved_tensor_hooks(define):
    define(SOFTABS)
    x = double(3.0)
    seen, packed = [], []
    with gradloom.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
        y = x.softabs()
    y.register_hook(lambda g: seen.append(g.tolist()))
    y.grad_fn.register_hook(lambda gin, gout: (gin[0] * 2,))
    y.backward()
    assert seen == [1.0] or seen == [[1.0]]
    assert len(packed) == 2
    assert x.grad.item() == pytest.approx(2 * 3 / 9.01**0.5)


def test_forward_mode_goes_through_it(define):
    define(SOFTABS)
    with forward_ad.dual_level():
        y = ops.user.softabs(forward_ad.make_dual(double(3.0, requires_grad=False), double(2.0, requires_grad=False)))
        assert forward_ad.unpack_dual(y).tangent.tolist() == pytest.approx([6 / 9.01**0.5])


def test_two_texts_may_be_given(define):
    start = SOFTABS.index("- name")
    define(SOFTABS[:start], SOFTABS[start:], namespace="texts")
    assert gradcheck(ops.texts.softabs, (double(1.0),))


def test_formulas_call_operators_that_were_defined_before(define):
    define(SOFTABS)
    define(
        PLAIN.format(name="twice", kernel="2 * xp.sqrt(self * self + 0.01)", formula="2 * grad * self / softabs(self)")
    )
    assert gradcheck(ops.user.twice, (double(1.0, -2.0),), check_forward_ad=True)
    assert gradgradcheck(ops.user.twice, (double(1.0, -2.0),))


def test_a_linear_operator_of_its_own_and_a_view_find_themselves(define):
    define("""
- func: thrice(Tensor self) -> Tensor
  kernel: 3 * self
- func: as_column(Tensor(a) self) -> Tensor(a)
  variants: function, method
  kernel: self[:, None]
  autogen: as_column_copy
- name: thrice(Tensor self) -> Tensor
  self: grad * 3
  result: auto_linear
- name: as_column(Tensor(a) self) -> Tensor(a)
  self: grad.squeeze(1)
  result: auto_linear
""")
    x = double(1.0, 2.0)
    for f in (ops.user.thrice, ops.user.as_column, ops.user.as_column_copy, gradloom.Tensor.as_column):
        assert gradcheck(f, (x,), check_forward_ad=True)
    view = x.detach().as_column()
    assert view._is_view() and view.shape == (2, 1)


def test_overloads_are_chosen_by_their_arguments(define):
    define("""
- func: plus.Tensor(Tensor self, Tensor other) -> Tensor
  kernel: self + other
- func: plus.list(Tensor[] tensors) -> Tensor
  kernel: "sum([t for t in tensors])"
- name: plus.Tensor(Tensor self, Tensor other) -> Tensor
  self: grad
  other: grad
- name: plus.list(Tensor[] tensors) -> Tensor
  tensors: "[grad for t in tensors]"
""")
    x = double(1.0)
    assert ops.user.plus(x, x).grad_fn.name() == "PlusBackward0"
    assert ops.user.plus([x, x]).grad_fn.name() == "PlusBackward1"
    assert ops.user.plus.overloads() == ["Tensor", "list"]
    assert ops.user.plus.list([x, x, x]).item() == 3
    with pytest.raises(RuntimeError, match="Expected a value of type 'List.Tensor.' for argument 'tensors'"):
        ops.user.plus.list(x)
    with pytest.raises(AttributeError, match="no overload name 'Scalar'; it has Tensor, list"):
        ops.user.plus.Scalar  # noqa: B018


def test_a_definition_can_be_taken_back(define):
    definition = define(SOFTABS)
    x = double(3.0)
    y = x.softabs()
    definition.remove()
    assert not hasattr(gradloom.Tensor, "softabs")
    with pytest.raises(AttributeError, match="no operator 'softabs'"):
        ops.user.softabs  # noqa: B018
    y.backward()
    assert x.grad.item() == pytest.approx(3 / 9.01**0.5), "a graph from before goes on"
    definition.remove()


def test_defining_an_operator_again_replaces_it(define):
    define(PLAIN.format(name="f", kernel="xp.sin(self)", formula="grad * self.cos()"))
    user = define(PLAIN.format(name="g", kernel="xp.sin(self)", formula="grad * f(self)"))
    define(PLAIN.format(name="f", kernel="xp.cos(self)", formula="-grad * self.sin()"))
    x = double(0.5)
    assert gradcheck(ops.user.f, (x,))
    assert gradcheck(ops.user.g, (x,)), "g's formula calls the f of now"
    assert user.operators == ("g",)


def test_top_level_makes_it_a_function_of_gradloom(define):
    definition = define(SOFTABS.replace("  tags", "  top_level: true\n  tags"))
    assert gradloom.softabs(double(3.0)).item() == pytest.approx(9.01**0.5)
    definition.remove()
    assert not hasattr(gradloom, "softabs")


def test_source_and_tracebacks_show_the_generated_code(define):
    definition = define(PLAIN.format(name="breaks", kernel="xp.sin(self)", formula="grad.reshape([7, 7])"))
    y = ops.user.breaks(double(1.0))
    assert "class BreaksBackward0(Node):" in inspect.getsource(type(y.grad_fn))
    assert inspect.getsource(ops.user.breaks.__wrapped__).startswith("def breaks(")
    with pytest.raises(RuntimeError) as caught:
        y.backward()
    text = "".join(traceback.format_exception(caught.value))
    assert "grad.reshape([7, 7])" in text and "<define user." in text
    assert any("class BreaksBackward0" in source for source in definition.sources.values())


@pytest.mark.parametrize("value", [None, 1, (1, 2, 3), [np.ones(2)]])
def test_a_kernel_that_returns_other_than_the_schema_says_is_named(define, value):
    def broken(x):
        return value

    kernel = "- func: broken(Tensor self) -> (Tensor, Tensor)\n  kernel: python.broken"
    define(kernel, kernels=[broken])
    with pytest.raises(RuntimeError, match=r"^broken\(\): the kernel does not return what the schema says: "):
        ops.user.broken(double(1.0))


def test_a_kernel_is_read_where_its_source_can_be(define):
    def first(x):
        if x.size:
            return x[0]

    def scaled(x, n: int):
        return x * n

    with pytest.raises(SpecError, match="`python.first`, line 1, may end without a value"):
        define("- func: first(Tensor self) -> Tensor\n  kernel: python.first", kernels=[first])
    with pytest.raises(SpecError, match="`other` is Tensor, and `n` of `python.scaled` is int"):
        define("- func: scaled(Tensor self, Tensor other) -> Tensor\n  kernel: python.scaled", kernels=[scaled])


BROKEN = {
    "a typo in a kernel": (SOFTABS.replace("xp.sqrt", "xp.sqrtt"), "<define>:7:14", "sqrtt"),
    "a typo in a formula": (SOFTABS.replace("/ result", "/ resutl"), "<define>:9:23", "did you mean `result`?"),
    "a name of tensors": (SOFTABS.replace("softabs", "sqrt"), "<define>:3:23", "tensors have a `sqrt` already"),
    "a name of gradloom": (
        PLAIN.format(name="sqrt", kernel="self", formula="grad").replace("  kernel", "  top_level: true\n  kernel", 1),
        "<define>:3:14",
        "gradloom has a `sqrt` already",
    ),
    "a name that is imported on first use": (
        PLAIN.format(name="load", kernel="self", formula="grad").replace("  kernel", "  top_level: true\n  kernel", 1),
        "<define>:3:14",
        "gradloom has a `load` already",
    ),
    "a name that annotations have": (
        PLAIN.format(name="float", kernel="self", formula="grad"),
        "<define>:2:9",
        "`float` cannot be the name of an operator of a package",
    ),
    "the name of the accessor": (
        PLAIN.format(name="methods_of", kernel="self", formula="grad"),
        "<define>:2:9",
        "the package has a function of that name",
    ),
    "an overload that hides another": (
        PLAIN.format(name="f.default", kernel="self", formula="grad"),
        "<define>:2:11",
        "`default` cannot be the name of an overload",
    ),
    "an overload like Python's own": (
        PLAIN.format(name="f.__init__", kernel="self", formula="grad"),
        "<define>:2:11",
        "`__init__` cannot be the name of an overload",
    ),
    "a module": (SOFTABS.replace("  tags", "  python_module: nn\n  tags"), "<define>:5:3", "gradloom.ops.user"),
    "a prefix": (
        PLAIN.format(name="f", kernel="self", formula="grad").replace("func: ", "func: my::"),
        "<define>:2:9",
        "leave it out",
    ),
    "no override": (WRONG_MUL.replace("  override: true\n", ""), "<define>:2:9", "add `override: true` to the entry"),
    "an override of one's own": (
        SOFTABS.replace("  self:", "  override: true\n  self:"),
        "<define>:9:3",
        "remove the key",
    ),
    "an override of nothing": (WRONG_MUL.replace("mul.Tensor", "mull.Tensor"), "<define>:2:9", "did you mean"),
    "an override that is not true": (WRONG_MUL.replace("true", "yes"), "<define>:3:3", "write `override: true`"),
    "an override of a composite": (
        "- name: reshape(Tensor(a) self, int[] shape) -> Tensor(a)\n  override: true\n  self: grad\n",
        "<define>:1:9",
        "made of other operators",
    ),
    "a kernel by name": (
        PLAIN.format(name="f", kernel="a.b", formula="grad"),
        "<define>:3:11",
        "define(..., kernels=[b])",
    ),
    "neither": ("- foo: 1\n", "<define>:1:3", "neither `func` nor `name`"),
    "both": ("- func: f(Tensor self) -> Tensor\n  name: f(Tensor self) -> Tensor\n", "<define>:2:3", "a second entry"),
    "an unknown operator": ("- name: f(Tensor self) -> Tensor\n  self: grad\n", "<define>:1:9", "unknown operator"),
    "no YAML": ("- func: [", "<define>:1", ""),
    "nothing": ("", "<define>:1:1", "empty"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_what_is_wrong_is_said_at_its_place_and_nothing_is_defined(define, kind):
    text, place, words = BROKEN[kind]
    before = set(vars(gradloom.Tensor)), dir(ops)
    with pytest.raises(SpecError) as caught:
        define(text)
    assert str(caught.value).startswith(place)
    assert words in str(caught.value)
    assert (set(vars(gradloom.Tensor)), dir(ops)) == before


def test_a_name_that_only_the_class_of_tensors_knows_is_refused_and_nothing_is_bound(define):
    with pytest.raises(SpecError, match="tensors have a `backward` already"):
        define(SOFTABS.replace("softabs", "backward"))
    assert not hasattr(gradloom.Tensor, "backward_")
    assert "user" not in dir(ops) or "backward" not in dir(ops.user)


@pytest.mark.parametrize("namespace", ["", "a b", "1a", "_a", "define", "aten", 3])
def test_a_bad_namespace_is_refused(define, namespace):
    with pytest.raises(ValueError):
        define(SOFTABS, namespace=namespace)


def test_a_text_that_is_no_text_is_refused(define):
    with pytest.raises(TypeError, match="takes YAML as a string, not bytes"):
        define(b"- func: f(Tensor self) -> Tensor")


CALLS = {
    "function": lambda a, b: gradloom.mul(a, b),
    "operator": lambda a, b: a * b,
    "reflected": lambda a, b: a.__mul__(b),
    "method": lambda a, b: a.mul(b),
    "in place": lambda a, b: a.clone().mul_(b),
    "operator in place": lambda a, b: a.clone().__imul__(b),
    "a reference from before": gradloom.mul,
    "a method from before": gradloom.Tensor.mul,
}


@pytest.mark.parametrize("call", CALLS)
def test_an_override_takes_effect_on_every_call_and_ends(define, call):
    a, b = double(2.0), double(5.0)

    def gradients():
        y = CALLS[call](a, b)
        assert y.grad_fn.name() == "MulBackward0"
        return [g.item() for g in gradloom.autograd.grad(y, (a, b))]

    assert gradients() == [5, 2]
    with define(WRONG_MUL.format(factor=3)) as override:
        assert gradients() == [15, 2]
        assert override.overrides == ("mul.Tensor", "mul_.Tensor")
    assert gradients() == [5, 2]


def test_an_override_of_an_operator_with_aliases_of_arguments(define):
    """The signature of `cumsum` has `axis=MISSING` beside `dim`."""
    schema = "cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor"
    x = double(0.5)
    with define(f"- name: {schema}\n  override: true\n  self: grad * 3\n  result: auto_linear\n"):
        (gradient,) = gradloom.autograd.grad(gradloom.cumsum(x, axis=0), x)
    assert gradient.item() == 3


def test_an_override_changes_forward_mode_and_double_backward(define):
    define(
        PLAIN.format(name="sin", kernel="self", formula="grad")
        .split("- name")[1]
        .join(["- name", ""])
        .replace("  self", "  override: true\n  self")
        .replace("grad\n", "grad * self.cos() * 2\n")
    )
    x = double(0.5)
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(gradloom.sin(forward_ad.make_dual(x.detach(), x.detach() * 0 + 1))).tangent
    (first,) = gradloom.autograd.grad(x.sin(), x, create_graph=True)
    (second,) = gradloom.autograd.grad(first, x)
    cos = x.detach().cos().item()
    assert tangent.item() == pytest.approx(2 * cos)
    assert first.item() == pytest.approx(2 * cos)
    assert second.item() == pytest.approx(-2 * x.detach().sin().item())


def test_overrides_stack_and_any_of_them_may_go_first(define):
    a, b = double(2.0), double(5.0)

    def gradient():
        return gradloom.autograd.grad(a * b, a)[0].item()

    first = define(WRONG_MUL.format(factor=3), namespace="one")
    second = define(WRONG_MUL.format(factor=7), namespace="two")
    assert gradient() == 35
    first.remove()
    assert gradient() == 35
    second.remove()
    assert gradient() == 5


def test_overriding_again_in_one_namespace_replaces(define):
    a, b = double(2.0), double(5.0)
    define(WRONG_MUL.format(factor=3))
    last = define(WRONG_MUL.format(factor=7))
    assert gradloom.autograd.grad(a * b, a)[0].item() == 35
    last.remove()
    assert gradloom.autograd.grad(a * b, a)[0].item() == 5


def test_the_node_of_one_of_several_overloads_keeps_its_number(define):
    define("""
- name: pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor
  override: true
  self: grad * exponent * self ** (exponent - 1)
  exponent: not_implemented("exponent")
""")
    x = double(2.0)
    y = x ** double(3.0, requires_grad=False)
    assert y.grad_fn.name() == "PowBackward1"
    assert (x**2).grad_fn.name() == "PowBackward0"
    assert gradloom.autograd.grad(y, x)[0].item() == 12
    with pytest.raises(NotImplementedError, match="exponent"):
        (x ** double(3.0)).backward()


def test_an_override_may_call_operators_of_its_own(define):
    define(
        SOFTABS
        + """
- name: abs(Tensor self) -> Tensor
  override: true
  self: grad * self / softabs(self)
  result: self_t * self_p / softabs(self_p)
"""
    )
    x = double(0.1)
    assert gradloom.autograd.grad(x.abs(), x)[0].item() == pytest.approx(0.5**0.5)
    with forward_ad.dual_level():
        y = forward_ad.make_dual(x.detach(), x.detach() * 0 + 1).abs()
        assert forward_ad.unpack_dual(y).tangent.item() == pytest.approx(0.5**0.5)


def test_a_view_can_be_overridden(define):
    define("""
- name: t(Tensor(a) self) -> Tensor(a)
  override: true
  self: grad.t() * 2
  result: auto_linear
""")
    x = gradloom.ones(2, 3, requires_grad=True)
    y = x.t()
    assert y._is_view()
    y.sum().backward()
    assert x.grad.unique().tolist() == [2]


def mean_of(x, window=2):
    return np.lib.stride_tricks.sliding_window_view(x, window, axis=-1).mean(-1)


def mean_of_backward(grad, window):
    return ops.user.mean_of(gradloom.nn.functional.pad(grad, (window - 1, window - 1)), window)


MEAN_OF = """
- func: mean_of(Tensor self, int window) -> Tensor
  kernel: python.mean_of
- name: mean_of(Tensor self, int window) -> Tensor
  self: mean_of_backward(grad, window)
  result: auto_linear
"""


def test_kernels_and_helpers_may_be_functions_of_the_program(define):
    define(MEAN_OF, kernels=[mean_of], helpers=[mean_of_backward])
    x = double(1.0, 5.0, 2.0, 4.0)
    assert ops.user.mean_of(x, 2).tolist() == [3, 3.5, 3]
    assert gradcheck(lambda x: ops.user.mean_of(x, 3), (x,), check_forward_ad=True)
    assert gradgradcheck(lambda x: ops.user.mean_of(x, 3), (x,))


@pytest.mark.parametrize(
    "change, given, error, said",
    [
        (("python.mean_of", "python.mean_off"), {}, SpecError, "did you mean `python.mean_of`?"),
        (("python.mean_of", "numpy.mean_of"), {}, SpecError, "there is no kernel `numpy.mean_of`"),
        (("python.mean_of", "python.mean_of(self, 1, 2, 3)"), {}, SpecError, "takes 2 positional"),
        (
            ("_backward(grad, window)", "_backward(grad)"),
            {},
            SpecError,
            "`mean_of_backward` cannot be called like this: `window` is missing",
        ),
        (("", ""), {"kernels": mean_of}, TypeError, r"kernels=\[mean_of\]"),
        (("", ""), {"kernels": [lambda x: x]}, TypeError, "`<lambda>`"),
        (("", ""), {"helpers": [gradloom.autograd.gradcheck, zeros_of]}, TypeError, "generated code has a `zeros_of`"),
        (("", ""), {"helpers": ["mean"]}, TypeError, "`mean`"),
        (("", ""), {"helpers": [mean_of, mean_of]}, TypeError, "two helpers of the name `mean_of`"),
    ],
)
def test_what_is_wrong_with_functions_is_said(define, change, given, error, said):
    given = {"kernels": [mean_of], "helpers": [mean_of_backward], **given}
    with pytest.raises(error) as caught:
        define(MEAN_OF.replace(*change) if change[0] else MEAN_OF, **given)
    assert re.search(said if error is TypeError else re.escape(said), str(caught.value))


def test_the_second_definition_reads_no_file_again(define, monkeypatch):
    define(SOFTABS)  # reads gradloom's own entries, which takes a second

    def fail(path, *_args, **_kwargs):
        pytest.fail(f"{path} is read again")

    for name in ("open", "read_text", "read_bytes"):
        monkeypatch.setattr(Path, name, fail)
    define(SOFTABS)
    assert ops.user.softabs(gradloom.zeros(1)).item() == pytest.approx(0.1)
