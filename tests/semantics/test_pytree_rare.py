"""The rarer functions of trees: written structures, dataclasses, constants, and functions of each kind of container."""

import dataclasses
from collections import OrderedDict, defaultdict, deque, namedtuple
from importlib import import_module

import pytest

Pair = namedtuple("Pair", "first second")


@pytest.fixture
def tree(torch):
    return import_module(f"{torch.__name__}.utils._pytree")


LEAF = '{"type": null, "context": null, "children_spec": []}'


def node(name, context, *children):
    return f'{{"type": "{name}", "context": {context}, "children_spec": [{", ".join(children)}]}}'


FACTORY = '{"default_factory_module": "builtins", "default_factory_name": "list", "dict_context": ["a"]}'


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (1, LEAF),
        ([1], node("builtins.list", '"null"', LEAF)),
        ((), node("builtins.tuple", '"null"')),
        ({"a": 1}, node("builtins.dict", r'"[\"a\"]"', LEAF)),
        (OrderedDict(a=1), node("collections.OrderedDict", r'"[\"a\"]"', LEAF)),
        (defaultdict(list, a=1), node("collections.defaultdict", FACTORY, LEAF)),
        (deque([1, 2], 3), node("collections.deque", '"3"', LEAF, LEAF)),
    ],
    ids=str,
)
def test_structures_are_written_as_json(tree, value, written):
    spec = tree.tree_structure(value)
    assert tree.treespec_dumps(spec) == f"[1, {written}]"
    assert tree.treespec_loads(f"[1, {written}]") == spec


def test_sizes_and_registered_classes_are_written_by_name(torch, tree):
    spec = tree.tree_structure(torch.Size([1, 2]))
    assert '"torch.Size"' in tree.treespec_dumps(spec) and tree.treespec_loads(tree.treespec_dumps(spec)) == spec
    with pytest.raises(NotImplementedError, match="_register_namedtuple"):
        tree.treespec_dumps(tree.tree_structure(namedtuple("Unknown", "a")(1)))
    named = type(f"Named{torch.__name__}", (), {})
    tree.register_pytree_node(named, lambda n: ([], "x"), lambda c, x: named(), serialized_type_name=named.__name__)
    spec = tree.tree_structure(named())
    assert tree.treespec_loads(tree.treespec_dumps(spec)) == spec
    tree._deregister_pytree_node(named)
    assert tree.tree_is_leaf(named())
    with pytest.raises(KeyError):
        tree._deregister_pytree_node(named)
    with pytest.raises(ValueError, match="Unknown protocol 2"):
        tree.treespec_loads("[2, {}]")
    with pytest.raises(NotImplementedError, match="nope"):
        tree.treespec_loads('[1, {"type": "nope", "context": "null", "children_spec": []}]')
    with pytest.raises(TypeError, match="PyTreeSpec"):
        tree.treespec_dumps([1])


def test_dataclasses_are_containers_of_their_fields(tree):
    @dataclasses.dataclass
    class Point:
        x: object
        y: object = 3
        made: int = dataclasses.field(init=False, default=1)

    tree.register_dataclass(Point)
    leaves, spec = tree.tree_flatten(Point(1, [2]))
    assert leaves == [1, 2] and tree.tree_unflatten([5, 6], spec) == Point(5, [6])
    assert tree.tree_flatten(Point(1, None))[0] == [1]
    assert [tree.keystr(path) for path, _ in tree.tree_leaves_with_path(Point(1, [2]))] == [".x", ".y[0]"]
    with pytest.raises(ValueError, match="field_names"):
        tree.register_dataclass(type("Plain", (), {}))


def test_constants_belong_to_the_structure(tree):
    @dataclasses.dataclass(frozen=True)
    class Mode:
        name: str

    tree.register_constant(Mode)
    leaves, spec = tree.tree_flatten([1, Mode("a")])
    assert leaves == [1] and tree.tree_unflatten([2], spec) == [2, Mode("a")] and tree.is_constant_class(Mode)
    assert spec != tree.tree_structure([1, Mode("b")])

    @dataclasses.dataclass
    class Unhashable:
        name: str

    with pytest.raises(TypeError, match="__hash__"):
        tree.register_constant(Unhashable)


def test_each_kind_of_container_has_functions(tree):
    for kind, value in (
        ("list", [1, 2]),
        ("tuple", (1, 2)),
        ("deque", deque([1, 2], 3)),
        ("ordereddict", OrderedDict(a=1, b=2)),
        ("defaultdict", defaultdict(list, a=1, b=2)),
        ("namedtuple", Pair(1, 2)),
    ):
        children, context = getattr(tree, f"_{kind}_flatten")(value)
        assert children == [1, 2]
        pairs, same = getattr(tree, f"_{kind}_flatten_with_keys")(value)
        assert [child for _, child in pairs] == [1, 2] and same == context
        rebuilt = getattr(tree, f"_{kind}_unflatten")(children, context)
        assert rebuilt == value and type(rebuilt) is type(value)


def test_small_helpers(torch, tree):
    named = torch.ones(2, 2).max(0)
    assert tree.is_structseq(named) and tree.is_structseq_class(type(named)) and not tree.is_structseq((1, 2))
    assert tree.is_namedtuple_class(Pair) and tree.is_namedtuple(Pair(1, 2)) and not tree.is_namedtuple_class(tuple)
    assert tree.key_get([1, {"a": 5}], (tree.SequenceKey(1), tree.MappingKey("a"))) == 5
    assert tree.arg_tree_leaves(1, [2], a=3) == [1, 2, 3]
    assert tree.treespec_pprint(tree.tree_structure([1, {"a": 2}])) == "[*, {'a': *}]"
    leaf = tree.treespec_leaf()
    assert tree.treespec_tuple([leaf]) == tree.tree_structure((1,))
    assert tree.treespec_dict({"a": leaf}) == tree.tree_structure({"a": 1})
    assert tree.map_only(int)(lambda n: n + 1)(1) == 2 and tree.map_only(int)(lambda n: n + 1)("a") == "a"
