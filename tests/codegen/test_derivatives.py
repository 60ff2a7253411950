"""derivatives.yaml: what each feature of the format becomes. One small pair of files per feature.

Error messages are in errors/. What PyTorch's own file gives is compared in tests/conformance.
"""

import ast
import re
from pathlib import Path

import pytest

from gradloom.codegen.derivatives import derivatives
from gradloom.codegen.derivatives.model import Gradient
from gradloom.codegen.operators import native_functions

UNARY = "foo(Tensor self) -> Tensor"
BINARY = "foo(Tensor self, Tensor other) -> Tensor"
PAIR = "foo(Tensor self, Tensor other) -> (Tensor, Tensor)"
NAMED = "foo(Tensor self) -> (Tensor values, Tensor indices)"
LIST = "foo(Tensor[] tensors, int dim=0) -> Tensor"
TO_LIST = "foo(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]"

OPERATORS = """
- func: exp(Tensor self) -> Tensor
  variants: function, method
  kernel: xp.exp(self)
- func: conj(Tensor self) -> Tensor
  variants: function, method
  kernel: xp.conj(self)
- func: where.self(Tensor condition, Tensor self, Tensor other) -> Tensor
  kernel: xp.where(condition, self, other)
- func: expand(Tensor(a) self, int[] size) -> Tensor(a)
  variants: method
  kernel: xp.broadcast_to(self, size)
- func: zero_(Tensor(a!) self) -> Tensor(a!)
  variants: method
  kernel: self * 0
"""
HELPERS = """
def helper(grad, *others, **more):
    raise AssertionError("a helper ran while code was generated")

def pair(grad, *others) -> tuple[Tensor, Tensor]:
    raise AssertionError("a helper ran while code was generated")
"""
KERNELS = {1: "self", 2: "(self, self)", 3: "(self, self, self)"}


@pytest.fixture
def load(tmp_path):
    """Load derivatives from YAML text; `natives` are entries, or schemas of operators with some kernel."""
    package = tmp_path / "src" / "gradloom"
    for folder in ("kernels", "composite", "formulas"):
        (package / folder).mkdir(parents=True)
    (package / "kernels" / "elementwise.py").write_text("def foo(*args):\n    pass\n")
    (package / "composite" / "elementwise.py").write_text("def foo(*args):\n    pass\n")
    (package / "formulas" / "elementwise.py").write_text(HELPERS)

    def load(text, *natives):
        entries = [n if n.startswith("- ") else f"- func: {n}\n  kernel: elementwise.foo\n" for n in natives]
        (tmp_path / "native_functions.yaml").write_text(OPERATORS + "".join(entries))
        (tmp_path / "derivatives.yaml").write_text(text)
        functions = native_functions.load(tmp_path / "native_functions.yaml", package=package)
        return derivatives.load(tmp_path / "derivatives.yaml", functions, package=package)

    load.package = package
    return load


@pytest.fixture
def info(load):
    """The info of an operator `foo` with the given schema and keys of its entry."""

    def info(schema, text, *natives):
        lines = "".join(f"  {line}\n" for line in text.split("\n"))
        native = f"- func: {schema}\n  kernel: elementwise.foo\n"
        found = load(f"- name: {schema}\n{lines}", native, *natives)
        info = found[schema.partition("(")[0]].info
        for d in (*info.derivatives, *info.forward):
            assert d.formula == "" or ast.parse(d.formula, mode="eval")
        return info

    return info


def saved(info, *fields):
    """{name: (field, ...)} of what an info saves."""
    return {s.name: tuple(getattr(s, f) for f in fields) for s in info.saved}


# Backward formulas


def test_one_formula_per_input(info):
    found = info("foo(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", "self: grad\nother: grad * alpha")
    assert found.node == "FooBackward0"
    assert [(d.inputs, d.formula, d.saved) for d in found.derivatives] == [
        (("self",), "grad", ()),
        (("other",), "grad * alpha", ("alpha",)),
    ]
    assert [(i.name, i.edge, i.size, i.derivative, i.position) for i in found.inputs] == [
        ("self", "0", None, 0, None),
        ("other", "1", None, 1, None),
    ]
    assert found.derivatives[0].gradients == (Gradient("grad", 0),)
    assert found.single_gradient
    assert saved(found, "kind", "condition") == {"alpha": ("value", None)}


def test_inputs_keep_the_order_of_the_schema(info):
    found = info(BINARY, "other: grad * self\nself: grad * other")
    assert [(i.name, i.edge, i.derivative) for i in found.inputs] == [("self", "0", 1), ("other", "1", 0)]
    assert [s.name for s in found.saved] == ["self", "other"]


def test_a_tensor_is_saved_only_if_its_users_need_a_gradient(info):
    schema = "foo(Tensor self, Tensor a, Tensor b) -> Tensor"
    found = info(schema, "self: grad * result\na: grad * b * self\nb: grad * a * self")
    assert saved(found, "condition", "output_nr") == {
        "self": ("needs_a or needs_b", None),
        "a": ("needs_b", None),
        "b": ("needs_a", None),
        "result": ("needs_self", 0),
    }
    assert [i.needs for i in found.needed] == ["needs_self", "needs_a", "needs_b"]


def test_what_every_input_needs_is_saved_without_a_condition(info):
    found = info(BINARY, "self: grad * result\nother: grad * result * self.dim()")
    assert saved(found, "condition") == {"self_dim": (None,), "result": (None,)}
    assert found.needed == ()


def test_several_inputs_in_one_formula(info):
    found = info(BINARY, "self, other: helper(grad, self, other, grad_input_mask)")
    (derivative,) = found.derivatives
    assert derivative.inputs == ("self", "other")
    assert derivative.mask
    assert [(i.name, i.derivative, i.position) for i in found.inputs] == [("self", 0, 0), ("other", 0, 1)]
    assert saved(found, "condition") == {"self": (None,), "other": (None,)}


@pytest.mark.parametrize(
    "formula",
    ["(grad * other, grad * self)", "pair(grad, self, other)", "(grad, grad) if grad_input_mask[0] else pair(grad)"],
)
def test_a_formula_for_two_gives_two(info, formula):
    assert info(BINARY, f"self, other: {formula}").derivatives[0].inputs == ("self", "other")


def test_wrap_opt_if(info):
    text = (
        "self, other: helper(grad, wrap_opt_if(self, grad_input_mask[1]), "
        "wrap_opt_if(other, grad_input_mask[0] or grad_input_mask[1]))"
    )
    found = info(BINARY, text)
    assert found.derivatives[0].formula == "helper(grad, self, other)"
    assert all(s.is_optional for s in found.saved)
    assert saved(found, "condition") == {"self": ("needs_other",), "other": ("needs_self or needs_other",)}
    assert not found.derivatives[0].mask


def test_wrap_opt_if_beside_another_formula_that_saves(info):
    schema = "foo(Tensor a, Tensor b, Tensor c) -> Tensor"
    found = info(schema, "a, b: helper(grad, wrap_opt_if(c, grad_input_mask[0]))\nc: grad * a * b * c")
    assert saved(found, "condition")["c"] == ("needs_c or (needs_a)",)


def test_retain_variables(info):
    found = info(UNARY, "self: grad * (result.exp() if retain_variables else result)")
    assert found.retain_variables
    assert found.derivatives[0].retain_variables


def test_lists_of_tensors(info):
    found = info(LIST, "tensors: '[grad * x for x in tensors]'")
    assert saved(found, "kind") == {"tensors": ("tensor_list",), "tensors_size_": ("value",)}
    assert [(i.edge, i.size) for i in found.inputs] == [("0", "tensors_size_")]


def test_the_edges_after_a_list_are_counted_at_run_time(info):
    schema = "foo(Tensor a, Tensor[] tensors, Tensor? b, Tensor[] more, Tensor c) -> Tensor"
    found = info(schema, "a: grad\ntensors: helper(grad)\nb: grad\nmore: helper(grad, len(more))\nc: grad")
    assert [(i.name, i.edge, i.size) for i in found.inputs] == [
        ("a", "0", None),
        ("tensors", "1", "tensors_size_"),
        ("b", "tensors_size_ + 1", None),
        ("more", "tensors_size_ + 2", "more_size_"),
        ("c", "tensors_size_ + more_size_ + 2", None),
    ]
    assert saved(found, "kind", "read", "is_public") == {
        "tensors_size_": ("value", "len(tensors)", False),
        "more_size_": ("value", "len(more)", False),
    }


def test_optional_tensors(info):
    schema = "foo(Tensor self, Tensor? weight, Tensor?[] indices) -> Tensor"
    found = info(schema, "self: grad if weight is None else helper(grad * weight, indices)")
    assert saved(found, "kind", "is_optional") == {"weight": ("tensor", True), "indices": ("tensor_list", False)}
    assert [i.name for i in found.inputs] == ["self"]


def test_not_implemented(info):
    found = info(BINARY, 'self: grad\nother: not_implemented("foo other")')
    assert [d.not_implemented for d in found.derivatives] == [None, "foo other"]
    assert [i.name for i in found.inputs] == ["self", "other"]


def test_non_differentiable_inputs_have_no_edge(info):
    schema = "foo(Tensor self, Tensor other, float eps) -> Tensor"
    found = info(schema, "self: grad * other\nother: non_differentiable\neps: non_differentiable")
    assert [i.name for i in found.inputs] == ["self"]
    assert saved(found, "condition") == {"other": (None,)}


def test_without_a_differentiable_input_there_is_no_node(load):
    found = load(f"- name: {UNARY}\n  self: non_differentiable\n", UNARY)["foo"]
    assert found.strategy == "not_differentiable"
    assert found.info.node is None


def test_keyword_arguments_and_names_that_python_reserves(info):
    found = info("foo(Tensor self, int from, *, int to) -> Tensor", "self: grad * from_ * to\nresult: auto_linear")
    assert saved(found, "read") == {"from_": ("from_",), "to": ("to",)}
    assert found.forward[0].formula == "ops.foo(self_t, from_, to=to)"


def test_an_argument_called_grad_is_hidden_by_the_gradient(info):
    found = info("foo_backward(Tensor grad, Tensor self) -> Tensor", "grad: grad * self\nself: grad * 2")
    assert found.node == "FooBackwardBackward0"
    assert saved(found, "of", "condition") == {"self": ("self", "needs_grad")}


# Gradients and outputs


def test_grad_of_several_outputs_is_that_of_the_first(info):
    found = info(NAMED, "self: helper(grad, indices)")
    assert [(o.name, o.output_nr) for o in found.outputs] == [("values", 0), ("indices", None)]
    assert found.single_gradient
    assert saved(found, "is_output", "output_nr") == {"indices": (True, None)}


def test_grads_by_index(info):
    found = info(PAIR, "self: grads[0] * result1\nother: grads[1] * result0")
    assert [o.output_nr for o in found.outputs] == [0, 1]
    assert [d.gradients for d in found.derivatives] == [(Gradient("grads[0]", 0),), (Gradient("grads[1]", 1),)]
    assert not found.single_gradient
    assert saved(found, "output_nr", "condition") == {"result0": (0, "needs_other"), "result1": (1, "needs_self")}


def test_gradients_by_name_count_differentiable_outputs_only(info):
    schema = "foo(Tensor self) -> (Tensor P, Tensor L, Tensor U)"
    found = info(schema, "output_differentiability: [False, True, True]\nself: helper(grad_L, grad_U, P, L)")
    assert [o.output_nr for o in found.outputs] == [None, 0, 1]
    assert found.derivatives[0].gradients == (Gradient("grad_L", 0), Gradient("grad_U", 1))
    assert saved(found, "output_nr") == {"P": (None,), "L": (0,)}


@pytest.mark.parametrize(
    "formula, materialize",
    [
        ("grads[0] + grads[1]", (0, 1)),
        ("grads[0] * self", ()),
        ("None", ()),
        ("helper(grads[0], grads[1])", ()),
        ("helper(grads[0], grads[1] * 2)", (1,)),
        ("grads[0] + grads[1] if grads[0] is not None else grads[1]", (1,)),
        ("helper(grads)", ()),
        ("helper(grads, grads[0].exp())", (0,)),
    ],
)
def test_an_undefined_gradient_is_made_zeros_only_where_the_formula_computes_with_it(info, formula, materialize):
    assert info(PAIR, f"self: {formula}").derivatives[0].materialize == materialize


def test_a_formula_is_not_evaluated_without_the_gradients_that_it_uses(info):
    found = info(PAIR, "self: grads[1] * result1\nother: grads[0] * self + grads[1]")
    assert [d.defined_by for d in found.derivatives] == [(1,), ()]
    assert info(PAIR, "self: helper(grads)").derivatives[0].defined_by == ()
    assert info(UNARY, "self: grad").derivatives[0].defined_by == ()


def test_a_list_of_outputs(info):
    found = info(TO_LIST, "self: helper(grads, self.sym_sizes(), dim)\nresult: auto_linear")
    (derivative,) = found.derivatives
    assert derivative.uses_all_gradients
    assert derivative.materialize == ()
    assert not found.single_gradient
    assert found.outputs[0].is_list
    assert found.forward[0].formula == "ops.foo(self_t, dim)"


def test_a_condition_for_differentiability(info):
    schema = "foo(Tensor self, ScalarType? dtype=None) -> Tensor"
    condition = '"dtype is None or dtype.is_floating_point or self.is_complex()"'
    found = info(schema, f"output_differentiability: [{condition}]\nself: grad")
    assert found.outputs[0].condition == "dtype is None or dtype.is_floating_point or self.is_complex()"
    assert found.outputs[0].is_differentiable


def test_differentiability_for_one_output_needs_no_list(info):
    assert info(UNARY, "output_differentiability: False").outputs[0].output_nr is None


def test_outputs_that_are_not_tensors_are_not_differentiable(info):
    found = info("foo(Tensor self) -> (Tensor, int)", "self: grads[0] * result1")
    assert [o.output_nr for o in found.outputs] == [0, None]
    assert saved(found, "kind", "output_nr") == {"result1": ("value", None)}


def test_saved_metadata_of_an_output(info):
    found = info(UNARY, "self: grad.expand(result.shape)")
    assert saved(found, "kind", "read", "is_output", "output_nr") == {
        "result_sym_sizes": ("value", "result.shape", True, None)
    }


# Forward mode


def forward(info, *args):
    (found,) = info(*args).forward
    return found


def tangents(found):
    return [(t.name, t.materialize) for t in found.tangents]


def test_auto_linear_calls_the_operator_on_tangents(info):
    schema = "foo(Tensor self, int dim, Tensor? other=None, *, Scalar alpha=1) -> Tensor"
    found = forward(info, schema, "self: grad\nother: grad * alpha\nresult: auto_linear")
    assert found.formula == "ops.foo(self_t, dim, other_t, alpha=alpha)"
    assert tangents(found) == [("self_t", True), ("other_t", True)]
    assert [t.is_optional for t in found.tangents] == [False, True]
    assert found.primals == ()


def test_auto_linear_leaves_other_tensors_as_they_are(info):
    schema = "foo.bar(Tensor self, Tensor index) -> Tensor"
    found = forward(info, schema, "self: helper(grad, index)\nresult: auto_linear")
    assert found.formula == "ops.foo_bar(self_t, index)"
    assert tangents(found) == [("self_t", False)]


def test_auto_linear_of_a_list(info):
    found = forward(info, LIST, "tensors: helper(grad)\nresult: auto_linear")
    assert found.formula == "ops.foo(tensors_t, dim)"
    assert tangents(found) == [("tensors_t", True)]


def test_auto_element_wise_conjugates_the_backward_formula(info):
    found = forward(info, UNARY, "self: grad * self.exp().conj() * result\nresult: auto_element_wise")
    assert found.formula == "(self_t.conj() * self_p.exp().conj() * result).conj()"
    assert found.primals == ("self",)
    assert found.results == ("result",)
    assert tangents(found) == [("self_t", False)]


def test_auto_element_wise_of_a_constant_function(info):
    found = forward(info, UNARY, "self: helper(grad)\nresult: auto_element_wise")
    assert (found.formula, found.primals) == ("(helper(self_t.conj())).conj()", ())


def test_an_explicit_forward_formula(info):
    text = "self: grad * other\nother: grad * self\nresult: helper(self_t * other_p, result) + other_t * self_p"
    found = forward(info, BINARY, text)
    assert found.formula == "helper(self_t * other_p, result) + other_t * self_p"
    assert found.primals == ("other", "self")
    assert found.results == ("result",)
    assert tangents(found) == [("self_t", True), ("other_t", True)]
    assert info(BINARY, text).forward_helpers == (("gradloom.formulas.elementwise", "helper"),)


def test_an_input_by_name_is_its_primal_in_a_forward_formula(info):
    found = forward(info, BINARY, "self: grad * other\nother: grad * self\nresult: self_t * other + self * other_t")
    assert found.formula == "self_t * other_p + self_p * other_t"
    assert found.primals == ("other", "self")


def test_a_forward_formula_over_some_tangents_only(info):
    found = forward(info, BINARY, "self: grad\nother: grad * 0\nresult: self_t.expand(self_p.sym_sizes())")
    assert found.formula == "self_t.expand(self_p.shape)"
    assert tangents(found) == [("self_t", False)]


def test_forward_formulas_of_several_outputs(info):
    schema = "foo(Tensor self) -> (Tensor Q, Tensor R)"
    found = info(schema, "self: helper(grad_Q, grad_R)\nQ, R: helper(self_t, Q, R)")
    assert [f.outputs for f in found.forward] == [("Q", "R")]
    found = info(schema, "self: helper(grad_Q, grad_R)\nR: self_t * R\nQ: self_t * Q")
    assert [f.outputs for f in found.forward] == [("R",), ("Q",)]


def test_forward_mode_that_is_not_implemented(info):
    found = forward(info, UNARY, 'self: grad\nresult: not_implemented("foo")')
    assert (found.not_implemented, found.formula) == ("foo", "")


def test_without_a_formula_there_is_no_forward_mode(info):
    assert info(UNARY, "self: grad").forward == ()


# Entries and operators


INPLACE = f"- func: {BINARY}\n  variants: function, method\n  autogen: foo_, foo.out\n  kernel: self + other\n"


def test_variants_share_the_node_of_the_functional_entry(load):
    text = f"- name: {BINARY}\n  self: grad * other * result\n  other: grad * self\n  result: self_t * other_p\n"
    found = load(text, INPLACE)
    assert [(f.name, f.strategy, f.info and f.info.node) for f in found if "foo" in f.name] == [
        ("foo", "formula", "FooBackward0"),
        ("foo_", "formula", "FooBackward0"),
        ("foo.out", "out", None),
    ]
    assert [i.node for i in found.infos] == ["FooBackward0"]


def test_an_inplace_variant_keeps_what_it_overwrites(load):
    text = (
        f"- name: {BINARY}\n  self: grad * other * result\n  other: grad * self * self.dim()\n"
        "  result: self_t * other_p + self_p * other_t\n"
    )
    found = load(text, INPLACE)["foo_"].info
    assert saved(found, "clone", "is_output") == {
        "self": (True, False),
        "self_dim": (False, False),
        "other": (False, False),
        "result": (False, True),
    }
    assert found.forward[0].keeps_original == ("self",)
    assert not any(s.clone for s in load(text, INPLACE)["foo"].info.saved)


def test_an_inplace_operator_of_its_own_finds_the_functional_entry(load):
    own = "foo_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)"
    found = load(f"- name: {BINARY}\n  self: grad\n", BINARY, own)
    assert found["foo_.Tensor"].info.node == "FooBackward0"


def test_an_inplace_entry_of_its_own_is_a_node_of_its_own(load):
    own = "foo_(Tensor(a!) self, Tensor other) -> Tensor(a!)"
    text = f"- name: {BINARY}\n  self: grad\n- name: {own}\n  self: grad * result\n  result: self_t.zero_()\n"
    found = load(text, BINARY, own)
    assert found["foo"].info.node == "FooBackward0"
    assert found["foo_"].info.node == "FooBackward1"
    assert found["foo_"].info.forward[0].formula == "self_t.zero_()"


def test_a_node_may_be_called_otherwise(load):
    text = f"- name: {BINARY}\n  self: grad\n  node: FooBackwards\n"
    assert load(text, BINARY)["foo"].info.node == "FooBackwards"


def test_a_copy_variant_has_a_node_of_its_own(load):
    view = "foo(Tensor(a) self) -> Tensor(a)"
    entry = f"- func: {view}\n  autogen: foo_copy\n  kernel: elementwise.foo\n"
    found = load(f"- name: {view}\n  self: grad\n  result: auto_linear\n", entry)
    assert found["foo_copy"].info.node == "FooBackward0_copy"
    assert found["foo_copy"].info.forward[0].formula == "ops.foo_copy(self_t)"
    assert [i.node for i in found.infos] == ["FooBackward0", "FooBackward0_copy"]


@pytest.mark.parametrize(
    "schema, stem",
    [
        ("mul.Tensor(Tensor self) -> Tensor", "MulBackward"),
        ("linalg_det(Tensor self) -> Tensor", "LinalgDetBackward"),
        ("_log_softmax(Tensor self) -> Tensor", "LogSoftmaxBackward"),
        ("max_pool2d_with_indices(Tensor self) -> Tensor", "MaxPool2DWithIndicesBackward"),
        ("_slow_conv2d_forward(Tensor self) -> Tensor", "SlowConv2DBackward"),
        ("gelu_backward(Tensor self) -> Tensor", "GeluBackwardBackward"),
    ],
)
def test_nodes_are_named_as_in_pytorch(load, schema, stem):
    name = schema.partition("(")[0]
    assert load(f"- name: {schema}\n  self: grad\n", schema)[name].info.node == f"{stem}0"


def test_nodes_of_one_name_are_numbered_in_the_order_of_the_file(load):
    schemas = [f"foo.{o}(Tensor self, {o} other) -> Tensor" for o in ("int", "float", "str", "Scalar")]
    schemas.append("_foo(Tensor self, bool other) -> Tensor")
    keys = ["self: grad", "output_differentiability: [False]", "self: grad", "self: non_differentiable", "self: grad"]
    text = "".join(f"- name: {s}\n  {k}\n" for s, k in zip(schemas, keys, strict=True))
    found = load(text, *schemas)
    nodes = [found[s.partition("(")[0]].info.node for s in schemas]
    assert nodes == ["FooBackward0", None, "FooBackward1", None, "FooBackward2"]


def test_sections_for_dispatch_keys(load):
    text = (
        f"- name: {UNARY}\n  dispatch:\n    Default:\n      self: grad\n      result: auto_linear\n"
        "    AutogradNestedTensor:\n      self: helper(grad, self)\n"
    )
    found = load(text, UNARY)["foo"]
    assert {key: i.node for key, i in found.infos.items()} == {
        "Default": "FooBackward0",
        "AutogradNestedTensor": "FooBackwardAutogradNestedTensor0",
    }
    assert found.infos["Default"].forward
    assert found.infos["AutogradNestedTensor"].forward == ()


@pytest.mark.parametrize(
    "native, strategy",
    [
        (f"- func: {UNARY}\n  composite: elementwise.foo\n", "composition"),
        (f"- func: {UNARY}\n  kernel: xp.exp(self)\n", "not_implemented"),
        (f"- func: {UNARY}\n  kernel: self == self\n  type_promotion: always_bool\n", "not_differentiable"),
        ("- func: foo(Tensor self) -> bool\n  kernel: elementwise.foo\n", "not_differentiable"),
        ("- func: foo(int[] size) -> Tensor\n  kernel: xp.zeros(size)\n", "not_differentiable"),
        ("- func: foo_(Tensor(a!) self) -> Tensor(a!)\n  kernel: elementwise.foo\n", "not_implemented"),
    ],
)
def test_operators_without_an_entry(load, native, strategy):
    other = "bar(Tensor self) -> Tensor"
    found = load(f"- name: {other}\n  self: grad\n", native, other)
    (function,) = [f for f in found if f.name.startswith("foo")]
    assert (function.strategy, function.infos) == (strategy, {})


def test_an_entry_for_a_composite_differentiates_it_by_its_formula(load):
    native = f"- func: {UNARY}\n  composite: elementwise.foo\n"
    assert load(f"- name: {UNARY}\n  self: grad * self\n", native)["foo"].strategy == "formula"


def test_the_helpers_and_operators_that_a_node_needs(info):
    found = info(UNARY, "self: helper(grad) * pair(grad)[0]")
    assert found.helpers == (("gradloom.formulas.elementwise", "helper"), ("gradloom.formulas.elementwise", "pair"))
    assert not found.uses_operators
    assert info(UNARY, "self: where(self, grad, grad)").uses_operators


def test_facts_are_frozen(info):
    found = info(UNARY, "self: grad")
    with pytest.raises(AttributeError):
        found.node = "Other"
    assert hash(found.inputs[0]) == hash(info(UNARY, "self: grad").inputs[0])


def test_the_examples_in_the_documentation(load):
    """Every YAML block of the page loads; helpers are whatever the formulas call."""
    page = (Path(__file__).parents[2] / "docs" / "yaml-derivatives.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    text = "".join(blocks)
    schemas = re.findall(r"^- name: (.*)$", text, re.MULTILINE)
    known = {s.partition("(")[0].partition(".")[0] for s in schemas}
    needed = [s for s in DOCUMENTED if s.partition("(")[0] not in known]
    helpers = {h for h in re.findall(r"\b([a-z]\w+)\(", text) if "_backward" in h or "_jvp" in h or "_grad" in h}
    assert len(schemas) > 25
    (load.package / "formulas" / "page.py").write_text("".join(f"def {h}(*args): pass\n" for h in sorted(helpers)))
    natives = [f"- func: {s}\n  variants: {variants(s)}\n  kernel: elementwise.foo\n" for s in (*schemas, *needed)]
    found = load(text, *(n for n in natives if "func: exp(" not in n))
    assert all(found[s.partition("(")[0]].strategy in ("formula", "not_differentiable") for s in schemas)


DOCUMENTED = (
    "zeros(int[] size, *, ScalarType? dtype=None, Device? device=None) -> Tensor",
    "zeros_like(Tensor self) -> Tensor",
)


def variants(schema):
    return "function, method" if re.search(r"Tensor(\(.*?\))? self", schema) else "function"
