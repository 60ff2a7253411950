"""Transforms within autocast: what they map and differentiate is cast."""

from importlib import import_module

import pytest


@pytest.fixture
def operands(torch):
    return torch.arange(6.0).reshape(3, 2), torch.arange(12.0).reshape(4, 3) / 7


def test_a_mapped_product_is_cast(torch, operands):
    w, x = operands
    with torch.autocast("cpu"):
        found = torch.func.vmap(lambda row: row @ w)(x)
    assert torch.equal(found, x.bfloat16() @ w.bfloat16())


def test_mapped_joins_take_the_widest_dtype(torch, operands):
    _, x = operands
    with torch.autocast("cpu"):
        assert torch.func.vmap(lambda row: torch.cat([row, row.bfloat16()]))(x).dtype is torch.float32


def test_a_mapped_function_may_have_a_region_of_its_own(torch, operands):
    w, x = operands
    assert torch.func.vmap(torch.autocast("cpu")(lambda row: row @ w))(x).dtype is torch.bfloat16


def test_gradients_of_each_row_are_cast_back(torch, operands):
    w, x = operands

    def loss(w, row):
        return torch.nn.functional.mse_loss(row @ w, torch.zeros(2))

    with torch.autocast("cpu"):
        each = torch.func.vmap(torch.func.grad(loss), (None, 0))(w, x)
        alone = [torch.func.grad(loss)(w, row) for row in x]
    assert each.dtype is torch.float32
    assert torch.equal(each, torch.stack(alone))


def test_jacobians_by_both_modes_go_through_the_casts(torch, operands):
    w, x = operands
    with torch.autocast("cpu"):
        reverse = torch.func.jacrev(lambda row: row @ w)(x[0])
        forward = torch.func.jacfwd(lambda row: row @ w)(x[0])
        hessian = torch.func.hessian(lambda row: (row @ w).float().pow(2).sum())(x[0])
    assert reverse.dtype is torch.float32 and forward.dtype is torch.bfloat16
    assert reverse.tolist() == forward.tolist() == w.t().tolist()
    assert hessian.tolist() == (2 * w @ w.t()).tolist()


def test_function_modes_see_the_call_and_not_the_casts(torch):
    seen = []

    class Watch(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    with torch.autocast("cpu"), Watch():
        found = torch.mm(torch.ones(2, 2), torch.ones(2, 2))
    assert found.dtype is torch.bfloat16
    assert seen.count("mm") == 1 and "to" not in seen


def test_a_profile_shows_the_casts_within_the_call(torch):
    with torch.autocast("cpu"), torch.profiler.profile() as profile:
        torch.mm(torch.ones(2, 2), torch.ones(2, 2))
    names = [event.name for event in profile.events()]
    assert "aten::mm" in names and names.count("aten::_to_copy") == 2


def test_dispatch_modes_see_the_casts_and_then_the_operator(torch):
    seen = []

    class Watch(import_module(f"{torch.__name__}.utils._python_dispatch").TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(
                (str(func), [a.dtype for a in args if isinstance(a, torch.Tensor)], torch.is_autocast_enabled("cpu"))
            )
            return func(*args, **(kwargs or {}))

    x = torch.ones(2, 2)
    with torch.autocast("cpu"), Watch():
        found = x @ x
    assert found.dtype is torch.bfloat16
    cast = ("aten._to_copy.default", [torch.float32], False)
    assert seen == [cast, cast, ("aten.mm.default", [torch.bfloat16, torch.bfloat16], False)]


def test_what_a_dispatch_mode_calls_is_outside_of_the_region(torch):
    seen = []

    class Watch(import_module(f"{torch.__name__}.utils._python_dispatch").TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append((str(func), torch.is_autocast_enabled("cpu"), torch.mm(x, x).dtype))
            return func(*args, **(kwargs or {}))

    x = torch.ones(2, 2)
    with torch.autocast("cpu"), Watch():
        x.exp()
    assert seen == [("aten.exp.default", False, torch.float32)]
