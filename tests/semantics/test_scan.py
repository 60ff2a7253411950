"""scan and map: a Python loop is the right value, for results and all derivatives."""

from importlib import import_module

import pytest


@pytest.fixture
def operators(torch):
    """Return (scan, map) of the library."""
    package = f"{torch.__name__}._higher_order_ops"
    return import_module(f"{package}.scan").scan, import_module(f"{package}.map").map


def scan_loop(step, state, xs):
    results = []
    for x in xs:
        state, result = step(state, x)
        results.append(result)
    return state, import_module(type(xs).__module__.partition(".")[0]).stack(results)


def recurrence(torch, scan, p, xs):
    """Return a number that depends on p, which the step closes over."""
    start = torch.ones(2, dtype=torch.float64)
    last, results = scan(lambda state, x: (p * state + x * p * p, (state * p).sin() * x), start, xs)
    return last.sin().sum() + results.sin().sum()


def points(torch):
    return torch.arange(1.0, 9.0, dtype=torch.float64).reshape(4, 2) / 8


def test_scan_and_map_return_last_states_and_stacked_results(torch, operators):
    scan, apply = operators
    x = torch.arange(1.0, 7.0).reshape(3, 2)

    def step(state, row):
        return state + row, state * row

    last, results = scan(step, torch.zeros(2), x)
    assert last.tolist() == [9, 12] and results.tolist() == [[0, 0], [3, 8], [20, 36]]
    last, results = scan(step, torch.zeros(2), x, reverse=True)
    assert last.tolist() == [9, 12] and results.tolist() == [[8, 20], [15, 24], [0, 0]]
    last, results = scan(step, torch.zeros(3), x, dim=-1)
    assert last.tolist() == [3, 7, 11] and results.tolist() == [[0, 2], [0, 12], [0, 30]]
    last, results = scan(step, torch.zeros(2), [])
    assert last.tolist() == [0, 0] and results == []
    last, results = scan(lambda s, r: ({"a": s["a"] + r[0]}, [r[1] * s["a"]]), {"a": torch.zeros(2)}, (x, x))
    assert last["a"].tolist() == [9, 12] and results[0].tolist() == [[0, 0], [3, 8], [20, 36]]
    assert apply(lambda row, factor: {"a": row * factor}, x, 3)["a"].tolist() == [[3, 6], [9, 12], [15, 18]]


def test_scan_and_map_differentiate_for_what_the_function_closes_over(torch, operators):
    scan, apply = operators
    p, xs = torch.tensor(0.7, dtype=torch.float64, requires_grad=True), points(torch)
    found, wanted = (torch.autograd.grad(recurrence(torch, way, p, xs), p)[0] for way in (scan, scan_loop))
    torch.testing.assert_close(found, wanted)
    (found,) = torch.autograd.grad(apply(lambda x: (x * p).sin() * p, xs).sum(), p)
    torch.testing.assert_close(found, torch.autograd.grad(((xs * p).sin() * p).sum(), p)[0])


@pytest.mark.parametrize("way", ["second", "grad", "vmap", "vmap of grad", "jvp", "hessian", "compile", "nested"])
def test_scan_is_a_loop_within_transforms(gradloom, way):
    torch, xs = gradloom, points(gradloom)
    scan = import_module("gradloom._higher_order_ops").scan
    p, several = torch.tensor(0.7, dtype=torch.float64), torch.tensor([0.7, 0.8], dtype=torch.float64)

    def nested(scan, p):
        def step(state, x):
            last, results = scan(lambda s, y: (s * p + y, s * y), state, torch.stack([x, 2 * x]))
            return last, results.sum(0)

        last, results = scan(step, torch.ones(2, dtype=torch.float64), xs)
        return last.sin().sum() + results.sin().sum()

    def compute(scan):
        def call(p):
            return recurrence(torch, scan, p, xs)

        if way == "second":
            leaf = p.clone().requires_grad_()
            (first,) = torch.autograd.grad(call(leaf), leaf, create_graph=True)
            return torch.autograd.grad(first, leaf)[0]
        if way == "compile":
            leaf, compiled = p.clone().requires_grad_(), torch.compile(call)
            return torch.stack([torch.autograd.grad(compiled(leaf), leaf)[0] for _ in range(3)])
        return {
            "grad": lambda: torch.func.grad(call)(p),
            "vmap": lambda: torch.func.vmap(call)(several),
            "vmap of grad": lambda: torch.func.vmap(torch.func.grad(call))(several),
            "jvp": lambda: torch.func.jvp(call, (p,), (torch.ones_like(p),))[1],
            "hessian": lambda: torch.func.hessian(call)(p),
            "nested": lambda: torch.func.grad(lambda p: nested(scan, p))(p),
        }[way]()

    torch.testing.assert_close(compute(scan), compute(scan_loop))


def test_wrong_arguments_of_scan_and_map_are_refused(gradloom):
    operators = import_module("gradloom._higher_order_ops")
    x, start = gradloom.ones(3, 2), gradloom.zeros(2)

    def step(state, row):
        return state + row, state * row

    for arguments, options, text in (
        ((3, start, x), {}, "Combine_fn must be a callable"),
        ((step, 1.0, x), {}, "All init leaves must be a Tensor"),
        ((step, [], x), {}, "requires init leaves"),
        ((step, start, [x, 2]), {}, "All xs leaves must be a Tensor"),
        ((step, start, x[:0]), {}, "scan dimension > 0"),
        ((step, start, gradloom.tensor(1.0)), {}, "scan dimension > 0"),
        ((step, start, (x, x[:2])), {}, "same size along dimension 0"),
        ((step, start, x), {"reverse": 1}, "Reverse must be a bool"),
        ((lambda s, r: s + r, start, x), {}, "must return a pair"),
        ((lambda s, r: (gradloom.cat([s, r]), r), start, x), {}, "init and carry to have same metadata"),
        ((lambda s, r: ([s, r], r), start, x), {}, "a state of 1 tensors"),
        ((lambda s, r: (s, 1.0), start, x), {}, "must return tensors"),
    ):
        with pytest.raises(RuntimeError, match=text):
            operators.scan(*arguments, **options)
    with pytest.raises(IndexError, match="Dimension out of range"):
        operators.scan(step, start, x, dim=2)
    for arguments, text in (
        ((3, x), "callable"),
        ((step, [x, 2]), "only consist of tensors"),
        ((step, x[:0]), "cannot be 0"),
        ((lambda r: r[0], [x, x[:2]]), "must be consistent"),
        ((lambda r: 1.0, x), "must return tensors"),
    ):
        with pytest.raises(RuntimeError, match=text):
            operators.map(*arguments)
