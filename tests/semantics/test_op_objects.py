"""Operators as objects, `torch.ops.<namespace>.<name>.<overload>`: what they say of themselves, how they are called."""

from __future__ import annotations

import copy
from importlib import import_module

import pytest


@pytest.fixture
def aten(torch):
    return torch.ops.aten


def test_an_operator_lists_its_overloads_and_gives_them_as_attributes(torch, aten):
    assert {"Tensor", "out"} <= set(aten.add.overloads())
    assert list(aten.add) == aten.add.overloads()
    assert {"default", "dim_IntList"} <= set(aten.sum.overloads())
    assert aten.add.Tensor is aten.add.Tensor and aten.add is aten.add
    assert aten.add.Tensor.overloadpacket is aten.add


def test_operators_and_overloads_print_by_their_names(torch, aten):
    assert str(aten.add) == "aten.add" and repr(aten.add) == "<OpOverloadPacket(op='aten.add')>"
    assert str(aten.add.Tensor) == "aten.add.Tensor" and str(aten.relu.default) == "aten.relu.default"
    assert repr(aten.add.Tensor) == "<OpOverload(op='aten.add', overload='Tensor')>"
    assert aten.add.Tensor.name() == "aten::add.Tensor" and aten.relu.default.name() == "aten::relu"
    assert aten.add.__name__ == "add" and aten.add.Tensor.__name__ == "add.Tensor"
    assert aten.add.Tensor.__qualname__ == "aten::add.Tensor" and aten.add.Tensor.namespace == "aten"
    assert aten.add._qualified_op_name == "aten::add" and aten.add.Tensor._overloadname == "Tensor"


def test_the_classes_of_operator_objects_are_importable(torch, aten):
    _ops = import_module(f"{torch.__name__}._ops")
    assert isinstance(aten.mul, _ops.OpOverloadPacket) and isinstance(aten.mul.Tensor, _ops.OpOverload)
    assert not isinstance(aten.mul, _ops.OpOverload) and not isinstance(torch.mul, _ops.OpOverload)


def test_an_overload_takes_arguments_by_position_and_by_the_names_of_its_schema(torch, aten):
    x, y = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    assert aten.add.Tensor(x, y).tolist() == [4, 6]
    assert aten.add.Tensor(x, y, alpha=2).tolist() == [7, 10]
    assert aten.add.Tensor(self=x, other=y).tolist() == [4, 6]
    assert aten.add.Tensor(x, 1).tolist() == [2, 3]
    assert aten.sum.dim_IntList(x, [0], keepdim=True).tolist() == [3]
    assert aten.sum.default(x, dtype=torch.float64).dtype is torch.float64
    assert aten.mul(x, y).tolist() == [3, 8] and aten.mul(self=x, other=y).tolist() == [3, 8]
    assert aten.sum(x).item() == 3 and aten.sum(x, [0]).item() == 3
    assert [t.tolist() for t in aten.max.dim(x, 0)] == [2, 1]
    assert aten.zeros.default([2], dtype=torch.int64).tolist() == [0, 0]
    assert aten.cat.default([x, y]).tolist() == [1, 2, 3, 4]


def test_in_place_and_out_overloads_write_to_what_they_are_given(torch, aten):
    x, y = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    assert aten.add_.Tensor(x, y) is x and x.tolist() == [4, 6] and x._version == 1
    out = torch.empty(2)
    assert aten.mul.out(x, y, out=out) is out and out.tolist() == [12, 24]
    assert aten.add.out(x, y, alpha=2, out=out).tolist() == [10, 14]


def test_overloads_record_history_as_functions_do(torch, aten):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = aten.mul.Tensor(aten.view.default(x, [2]), 3)
    assert y.grad_fn.name() == "MulBackward0"
    aten.sum.default(y).backward()
    assert x.grad.tolist() == [3, 3]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda a, x: a.add.Tensor(x, "a"),
            r"aten::add\(\) Expected a value of type 'Tensor' for argument 'other' but "
            r"instead found type 'str'.\nPosition: 1\nValue: 'a'\nDeclaration: aten::add",
        ),
        (
            lambda a, x: a.add.Tensor(x),
            r"aten::add\(\) is missing value for argument 'other'. Declaration: aten::add.Tens",
        ),
        (
            lambda a, x: a.add.Tensor(x, x, x),
            r"takes 2 positional argument\(s\) but 3 was/were given.  Declaration: aten",
        ),
        (lambda a, x: a.add.Tensor(x, x, x, x), r"expected at most 3 argument\(s\) but received 4 argument\(s\)"),
        (
            lambda a, x: a.add.Tensor(x, x, beta=1),
            r"Unknown keyword argument 'beta' for operator 'aten::add'. Schema: ate",
        ),
        (lambda a, x: a.add.Tensor(x, x, self=x), r"Argument 'self' specified both as positional and keyword argument"),
        (lambda a, x: a.relu.default(3), r"aten::relu\(\) Expected a value of type 'Tensor' for argument 'self' but"),
        (
            lambda a, x: a.relu(),
            r"Overloaded torch operator invoked from Python failed to match any schema:\naten::relu",
        ),
        (lambda a, x: a.view(x, 2, 1), r"aten::view\(\) expected at most 2 argument\(s\) but received 3 argument\(s\)"),
        (lambda a, x: a.sum.dim_IntList(x, "a"), r"for argument 'dim' but instead found type 'str'"),
    ],
)
def test_what_a_schema_does_not_take_is_refused(torch, aten, call, message):
    with pytest.raises(RuntimeError, match=message):
        call(aten, torch.ones(2))


def test_what_is_not_there_is_an_attribute_error(torch, aten):
    with pytest.raises(AttributeError, match="The underlying op of 'aten.add' has no overload name 'foo'"):
        _ = aten.add.foo
    with pytest.raises(AttributeError, match="'_OpNamespace' 'aten' object has no attribute 'not_an_operator'"):
        _ = aten.not_an_operator
    with pytest.raises(AttributeError, match="'_OpNamespace' 'nobody' object has no attribute 'knows'"):
        _ = torch.ops.nobody.knows
    with pytest.raises(AttributeError):
        _ = aten.add.Tensor.foo
    assert not hasattr(aten.add, "foo") and not hasattr(aten, "__path__")


def test_a_schema_says_what_arguments_there_are(torch, aten):
    schema = aten.add.Tensor._schema
    assert str(schema) == "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
    assert (schema.name, schema.overload_name, schema.is_mutable) == ("aten::add", "Tensor", False)
    assert [a.name for a in schema.arguments] == ["self", "other", "alpha"]
    alpha = schema.arguments[2]
    assert alpha.kwarg_only and alpha.has_default_value() and alpha.default_value == 1
    assert str(alpha.type) == "number" and isinstance(alpha.type, torch.NumberType)
    assert not schema.arguments[0].has_default_value() and schema.arguments[0].alias_info is None
    assert isinstance(schema.arguments[0].type, torch.TensorType)
    assert [str(r.type) for r in schema.returns] == ["Tensor"]
    assert [r.name for r in aten.max.dim._schema.returns] == ["values", "indices"]
    assert aten.relu.default._schema.overload_name == ""


def test_a_schema_says_what_is_written_to_and_what_shares_memory(torch, aten):
    out = aten.add.out._schema
    assert out.is_mutable and out.arguments[3].is_out and out.arguments[3].alias_info.is_write
    assert out.arguments[3].alias_info.before_set == {"a"}
    inplace = aten.add_.Tensor._schema
    assert inplace.is_mutable and inplace.arguments[0].alias_info.is_write and not inplace.arguments[0].is_out
    view = aten.view.default
    assert view.is_view and not view._schema.is_mutable and not view._schema.arguments[0].alias_info.is_write
    assert not aten.add.Tensor.is_view and not aten.add_.Tensor.is_view
    assert torch.Tag.pointwise in aten.add.Tensor.tags and torch.Tag.pointwise not in view.tags
    assert torch.Tag.inplace in aten.add_.Tensor.tags and torch.Tag.out in aten.add.out.tags


def test_types_of_arguments_are_told_by_their_classes(torch, aten):
    by_name = {a.name: a.type for a in aten.sum.dim_IntList._schema.arguments}
    dims = by_name["dim"].getElementType()
    assert isinstance(by_name["dim"], torch.OptionalType) and isinstance(dims, torch.ListType)
    assert isinstance(dims.getElementType(), torch.IntType)
    assert isinstance(by_name["keepdim"], torch.BoolType)
    assert str(by_name["dtype"]) == "Optional[int]" and str(by_name["dim"]) == "Optional[List[int]]"
    assert str(aten.sum.dim_IntList._schema.arguments[3].real_type) == "Optional[ScalarType]"
    assert by_name["dtype"].kind() == "OptionalType"
    indices = aten.index.Tensor._schema.arguments[1].type
    assert str(indices) == "List[Optional[Tensor]]"


def test_schemas_are_parsed_from_text(torch):
    parse = torch._C.parse_schema
    text = (
        "ns::foo.bar(Tensor(a!) x, int[]? y=None, *, str s='a b', bool[2] m=[True, False], Tensor?[] l)"
        " -> (Tensor a, Tensor[] b)"
    )
    schema = parse(text)
    assert str(schema) == text.replace("'", '"')
    assert schema == parse(str(schema)) and schema != parse("foo(Tensor x) -> Tensor")
    assert [a.default_value for a in schema.arguments] == [None, None, "a b", [True, False], None]
    assert schema.arguments[3].N == 2 and schema.arguments[1].N is None
    assert str(parse("foo(Tensor x)->Tensor")) == "foo(Tensor x) -> Tensor"
    assert str(parse("foo() -> ()")) == "foo() -> ()"
    assert isinstance(schema, torch._C.FunctionSchema)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("foo(Tensor x, *) -> Tensor", "foo(Tensor x) -> Tensor"),
        ("foo(Tensor x, *, *, int n) -> (Tensor)", "foo(Tensor x, *, int n) -> Tensor"),
        ("foo(Tensor x) -> (Tensor y)", "foo(Tensor x) -> Tensor y"),
        ("ns::foo(Tensor(a0!) x)->()", "ns::foo(Tensor(a0!) x) -> ()"),
    ],
)
def test_schemas_are_shown_in_their_normal_form(torch, text, shown):
    assert str(torch._C.parse_schema(text)) == shown


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("foo(x) -> Tensor", r"expected ident but found '\)' here:\nfoo\(x\) -> Tensor\n     ~ <--- HERE"),
        (
            "foo(Tensor x) Tensor",
            r"expected arrow but found 'ident' here:\nfoo\(Tensor x\) Tensor\n {14}~~~~~~ <--- HERE",
        ),
        ("foo(Tensor x) -> Tensor y z", "expected eof but found 'ident' here"),
        ("foo", "only the operator name was given"),
        ("foo(Tensor x", r"expected \) but found 'eof'"),
        ("foo(Tensor x)", "expected arrow"),
        ("foo(Tensor x) -> ", "expected ident but found 'eof'"),
        ("foo(Tensr x) -> Tensor", "unknown type specifier"),
        ("foo(Tensor) -> Tensor", "expected ident"),
        ("foo(x) -> Tensor", "expected ident"),
    ],
)
def test_what_is_no_schema_is_refused(torch, text, message):
    with pytest.raises(RuntimeError, match=message):
        torch._C.parse_schema(text)


def test_operators_are_copied_as_themselves_and_serve_as_keys(torch, aten):
    table = {aten.add.Tensor: "add", aten.mul.Tensor: "mul", aten.add: "packet"}
    assert table[copy.deepcopy(aten.add.Tensor)] == "add" and table[aten.mul.Tensor] == "mul"
    assert aten.add.Tensor != aten.add.out and aten.add != aten.add.Tensor


def test_which_kernels_an_overload_has(torch, aten):
    assert aten.sin.default.has_kernel_for_dispatch_key("CPU")
    assert aten.layer_norm.default.has_kernel_for_dispatch_key("CompositeImplicitAutograd")
    assert not aten.sin.default.has_kernel_for_dispatch_key("CompositeImplicitAutograd")


def test_every_generated_overload_has_an_object_whose_schema_is_its_own(gradloom):
    import pickle

    count = 0
    for name in gradloom.ops.aten:
        packet = getattr(gradloom.ops.aten, name)
        for overload in packet.overloads():
            op, count = getattr(packet, overload), count + 1
            schema = op._schema
            assert schema.name == f"aten::{name}" and (schema.overload_name or "default") == overload
            assert gradloom._C.parse_schema(str(schema)) == schema
            assert op._calls.signatures and isinstance(op.tags, list)
            assert pickle.loads(pickle.dumps(op)) is op
    assert count > 1400


def test_operator_objects_return_plain_tuples_where_functions_name_the_parts(torch):
    x = torch.tensor([[3.0, 1.0], [2.0, 4.0]])
    for found in torch.ops.aten.max.dim(x, 0), torch.ops.aten.topk(x, 1), torch.ops.aten.sort.stable(x, stable=True):
        assert type(found) is tuple and len(found) == 2
    assert torch.max(x, 0).values.tolist() == [3.0, 4.0]


def test_operators_that_only_modes_see_are_there_before_there_was_a_mode(torch):
    assert torch.ops.aten._local_scalar_dense(torch.tensor(2.0)) == 2.0
    assert str(torch.ops.aten.lift_fresh.default) == "aten.lift_fresh.default"


def test_operators_of_pinned_memory_and_sparse_products(torch):
    aten, x = torch.ops.aten, torch.ones(2, 2)
    assert aten.is_pinned(x) is False
    for pin in aten.pin_memory, aten._pin_memory.default:
        with pytest.raises(RuntimeError, match="accelerator|NVIDIA"):
            pin(x)
    sparse, dense = torch.eye(2).to_sparse().requires_grad_(), x.clone().requires_grad_()
    found = aten._sparse_addmm.default(x, sparse, dense, alpha=2)
    found.sum().backward()
    assert found.tolist() == [[3.0, 3.0], [3.0, 3.0]] and found.grad_fn.name() == "SparseAddmmBackward0"
    assert dense.grad.tolist() == [[2.0, 2.0], [2.0, 2.0]]


def test_the_module_of_an_operator_object_names_its_namespace(torch):
    for found in torch.ops.aten.add, torch.ops.aten.add.Tensor:
        assert found.__module__ == f"{torch.__name__}._ops.aten"
