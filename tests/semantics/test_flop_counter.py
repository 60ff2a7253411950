"""utils.flop_counter: floating-point operations by operator and by module, forward and backward."""

from __future__ import annotations

from importlib import import_module

import pytest


@pytest.fixture
def flops(torch):
    return import_module(f"{torch.__name__}.utils.flop_counter")


def counts(mode):
    return {module: {str(op): n for op, n in found.items()} for module, found in mode.get_flop_counts().items()}


def test_products_of_matrices_are_counted_by_module(torch, flops):
    net = torch.nn.Sequential(torch.nn.Linear(10, 20), torch.nn.ReLU(), torch.nn.Linear(20, 5))
    with flops.FlopCounterMode(display=False) as mode:
        net(torch.ones(8, 10)).sum().backward()
    assert mode.get_total_flops() == 11200
    assert counts(mode) == {
        "Global": {"aten.addmm": 4800, "aten.mm": 6400},
        "Sequential": {"aten.addmm": 4800, "aten.mm": 6400},
        "Sequential.0": {"aten.addmm": 3200, "aten.mm": 3200},
        "Sequential.2": {"aten.addmm": 1600, "aten.mm": 3200},
    }


def test_modules_in_modules_go_by_their_path(torch, flops):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = torch.nn.Linear(4, 4)
            self.b = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))

        def forward(self, x):
            return self.b(self.a(x))

    with flops.FlopCounterMode(display=False) as mode:
        Net()(torch.ones(2, 4)).sum().backward()
    found = counts(mode)
    assert set(found) == {"Global", "Net", "Net.a", "Net.b", "Net.b.0", "Net.b.1"}
    assert found["Net.a"] == {"aten.addmm": 64, "aten.mm": 64}
    assert found["Net.b.1"] == {"aten.addmm": 64, "aten.mm": 128}


@pytest.mark.parametrize(("transposed", "groups", "stride"), [(False, 1, 1), (False, 3, 2), (True, 1, 1), (True, 1, 2)])
def test_convolutions_count_their_gradients(torch, flops, transposed, groups, stride):
    kind = torch.nn.ConvTranspose2d if transposed else torch.nn.Conv2d
    net = kind(3, 6, 3, padding=1, stride=stride, groups=groups)
    with flops.FlopCounterMode(display=False) as mode:
        net(torch.ones(2, 3, 8, 8, requires_grad=True)).sum().backward()
    expected = {
        (False, 1, 1): (41472, 82944),
        (False, 3, 2): (3456, 13824),
        (True, 1, 1): (41472, 82944),
        (True, 1, 2): (41472, 82944),
    }[transposed, groups, stride]
    found = counts(mode)["Global"]
    assert (found["aten.convolution"], found["aten.convolution_backward"]) == expected


def test_batches_of_products_and_formulas_of_ones_own(torch, flops):
    a, b = torch.ones(2, 3, 4), torch.ones(2, 4, 5)
    with flops.FlopCounterMode(display=False) as mode:
        torch.bmm(a, b)
        torch.baddbmm(torch.ones(2, 3, 5), a, b)
        a + 1
    assert counts(mode)["Global"] == {"aten.bmm": 240, "aten.baddbmm": 240}
    mapping = {torch.ops.aten.add: lambda x, *rest, out_shape=None, **kwargs: x.numel()}
    with flops.FlopCounterMode(display=False, custom_mapping=mapping) as mode:
        a + 1
    assert mode.get_total_flops() == 24
    with pytest.raises(ValueError, match="expected each target to be OpOverloadPacket"):
        flops.register_flop_formula(torch.ops.aten.add.Tensor)(lambda *args, **kwargs: 1)


def test_the_table_shows_modules_and_their_shares(gradloom):
    flop_counter = import_module("gradloom.utils.flop_counter")
    net = gradloom.nn.Sequential(gradloom.nn.Linear(10, 20), gradloom.nn.Linear(20, 5))
    with flop_counter.FlopCounterMode(display=False) as mode:
        net(gradloom.ones(8, 10))
    assert mode.get_table(1).splitlines() == [
        "Module           FLOP  % Total",
        "--------------  -----  -------",
        "Global          4,800  100.00%",
        " - aten.addmm   4,800  100.00%",
        " Sequential     4,800  100.00%",
        "  - aten.addmm  4,800  100.00%",
    ]
    assert "Sequential.0" in mode.get_table() and "66.67%" in mode.get_table()


@pytest.mark.since("2.15")
def test_nothing_is_skipped_where_all_are_operators(torch):
    flops = import_module(f"{torch.__name__}.utils.flop_counter")
    with flops.FlopCounterMode(display=False, skip_unsupported=True) as mode:
        torch.ones(2, 3) @ torch.ones(3, 4)
    assert mode.get_total_flops() == 48 and not mode.get_unsupported_ops() and mode.skip_unsupported
