"""Trees of containers: what is a node and what a leaf, and how structures are compared and filled."""

from collections import OrderedDict, defaultdict, deque, namedtuple
from importlib import import_module

import pytest

Pair = namedtuple("Pair", "first second")


@pytest.fixture
def tree(torch):
    return import_module(f"{torch.__name__}.utils._pytree")


@pytest.mark.parametrize(
    "value",
    [
        1,
        None,
        "text",
        [1, 2],
        (1,),
        (),
        {"b": 1, "a": [2, {}]},
        Pair(1, (2, 3)),
        OrderedDict(b=1, a=2),
        defaultdict(list, {1: 2}),
        deque([1, 2], maxlen=3),
        [1, {"k": (2, None)}, []],
    ],
    ids=str,
)
def test_a_tree_is_rebuilt_from_its_leaves(tree, value):
    leaves, spec = tree.tree_flatten(value)
    rebuilt = tree.tree_unflatten(leaves, spec)
    assert rebuilt == value and type(rebuilt) is type(value)
    assert spec.num_leaves == len(leaves) and spec == tree.tree_structure(rebuilt)
    assert hash(spec) == hash(tree.tree_structure(rebuilt))


def test_leaves_come_in_the_order_of_the_containers(tree):
    assert tree.tree_leaves({"b": 1, "a": (2, [3, None])}) == [1, 2, 3, None]
    assert list(tree.tree_iter(Pair([1], 2))) == [1, 2]
    assert tree.tree_leaves([1, (2, 3)], is_leaf=lambda t: isinstance(t, tuple)) == [1, (2, 3)]


def test_what_an_unknown_class_holds_is_not_looked_at(tree):
    class MyList(list):
        pass

    class MyTuple(tuple):
        __slots__ = ()

    held = MyList([1]), MyTuple([1]), {1, 2}
    assert all(a is b for a, b in zip(tree.tree_leaves(held), held, strict=True))


def test_shapes_and_named_results_are_containers(torch, tree):
    assert tree.tree_leaves(torch.zeros(2, 3).shape) == [2, 3]
    found = torch.max(torch.tensor([[1.0, 2.0]]), 1)
    doubled = tree.tree_map(lambda t: t * 2, found)
    assert doubled.values.item() == 4.0 and doubled.indices.item() == 2 and type(doubled) is type(found)


def test_specs_print_their_structure(tree):
    assert str(tree.tree_structure([1, {"k": (2, 3), "e": []}])) == (
        "TreeSpec(list, None, [*,\n  TreeSpec(dict, ['k', 'e'], [TreeSpec(tuple, None, [*,\n      *]),\n"
        "    TreeSpec(list, None, [])])])"
    )


def test_structures_are_compared_without_the_leaves(tree):
    structure = tree.tree_structure
    assert structure([1, (2,)]) == structure(["x", (None,)]) != structure([1, [2]])
    assert structure({"a": 1, "b": 2}) == structure({"a": 0, "b": 0}) != structure({"b": 1, "a": 2})
    assert structure(Pair(1, 2)) != structure((1, 2))


def test_a_function_is_mapped_over_several_trees(tree):
    assert tree.tree_map(lambda a, b: (a, b), [1, {"x": 2}], [[3], {"x": 4}]) == [(1, [3]), {"x": (2, 4)}]
    assert tree.tree_map(lambda a, b: a - b, {"x": 1, "y": 2}, OrderedDict(y=1, x=1)) == {"x": 0, "y": 1}


@pytest.mark.parametrize(
    ("other", "message"),
    [([1], "Node arity mismatch; expected 2, but got 1"), ((1, 2), "Node type mismatch"), (1, "Node type mismatch")],
)
def test_trees_of_other_structures_are_refused(tree, other, message):
    with pytest.raises(ValueError, match=message):
        tree.tree_map(lambda a, b: a, [1, 2], other)


def test_missing_keys_are_named(tree):
    with pytest.raises(ValueError, match=r"missing key\(s\): \{'a'\}; extra key\(s\): \{'b'\}"):
        tree.tree_map(lambda a, b: a, {"a": 1}, {"b": 2})


def test_a_wrong_number_of_leaves_is_refused(tree):
    spec = tree.tree_structure([1, 2])
    with pytest.raises(ValueError, match="has length 1 but the spec refers to a pytree that holds 2 items"):
        tree.tree_unflatten([1], spec)
    with pytest.raises(TypeError, match="Expected `treespec` to be an instance of PyTreeSpec"):
        tree.tree_unflatten([1], [1])


def test_some_leaves_are_chosen_by_class_or_predicate(tree):
    assert tree.tree_map_only(int, lambda n: n + 1, [1, 2.0, "a"]) == [2, 2.0, "a"]
    assert tree.tree_map_only((int, float), lambda n: n + 1, [1, 2.0, "a"]) == [2, 3.0, "a"]
    assert tree.tree_map_only(lambda n: n == 2.0, lambda n: n + 1, [1, 2.0]) == [1, 3.0]
    assert not tree.tree_all(bool, [1, 0]) and tree.tree_any(bool, [1, 0]) and tree.tree_all_only(int, bool, [1, 0.0])
    assert not tree.tree_any_only(int, bool, [0, 1.0])


def test_mapping_for_the_effect_gives_the_tree_itself(tree):
    seen, value = [], [1, (2,)]
    assert tree.tree_map_(seen.append, value) is value and seen == [1, 2]


def test_classes_can_be_registered(tree):
    class Point:
        def __init__(self, x, y):
            self.x, self.y = x, y

    tree.register_pytree_node(Point, lambda p: ((p.x, p.y), None), lambda values, _: Point(*values))
    moved = tree.tree_map(lambda n: n + 1, {"p": Point(1, [2])})["p"]
    assert (moved.x, moved.y) == (2, [3])
    with pytest.raises(ValueError, match="already registered as pytree node"):
        tree.register_pytree_node(list, lambda p: (p, None), lambda values, _: list(values))


def test_paths_lead_to_leaves(tree):
    found = tree.tree_leaves_with_path({"a": [1, 2], "b": Pair(3, 4)})
    assert [(tree.keystr(path), leaf) for path, leaf in found] == [
        ("['a'][0]", 1),
        ("['a'][1]", 2),
        ("['b'].first", 3),
        ("['b'].second", 4),
    ]
    assert tree.tree_map_with_path(lambda path, leaf: f"{tree.keystr(path)}={leaf}", [5]) == ["[0]=5"]


def test_one_leaf_stands_for_a_whole_subtree(tree):
    spec = tree.tree_structure([1, (2, 3)])
    spread = tree._broadcast_to_and_flatten
    assert spread(0, spec) == [0, 0, 0] and spread([0, 1], spec) == [0, 1, 1] and spread([0, (1, 2)], spec) == [0, 1, 2]
    assert spread((0, 1), spec) is None and spread([0], spec) is None
