"""Exported programs with dynamic dimensions: sizes, bounds, what follows from them, and what they do not hold for."""

import io
from importlib import import_module

import pytest


@pytest.fixture
def export(torch):
    return import_module(f"{torch.__name__}.export")


def module_of(torch, function, *layers):
    class Made(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList(layers)

    forward = {1: lambda self, x: function(self.layers, x), 2: lambda self, x, y: function(self.layers, x, y)}[
        function.__code__.co_argcount - 1
    ]
    Made.forward = forward
    return Made().eval()


def agree(torch, export, module, example, dynamic_shapes, *others):
    """Compare a program, the one it decomposes into, and the one that is read again with the module; return it."""
    program = export.export(module, example, dynamic_shapes=dynamic_shapes)
    file = io.BytesIO()
    export.save(program, file)
    file.seek(0)
    for made in (program, program.run_decompositions(), export.load(file)):
        runs = made.module()
        for arguments in (example, *others):
            torch.testing.assert_close(runs(*arguments), module(*arguments))
    return program


def test_a_program_runs_for_other_batch_sizes(torch, export):
    torch.manual_seed(0)
    module = module_of(
        torch,
        lambda layers, x: (layers[0](x).reshape(x.shape[0] * 3), x.shape[0], x / x.size(0)),
        torch.nn.Linear(4, 3),
    )
    batch = export.Dim("batch", min=2, max=9)
    program = agree(
        torch, export, module, (torch.randn(5, 4),), {"x": {0: batch}}, (torch.ones(2, 4),), (torch.ones(9, 4),)
    )
    assert [str(bounds) for bounds in program.range_constraints.values()] == ["VR[2, 9]"]
    assert any("sym_size" in str(node.target) for node in program.graph.nodes)
    with pytest.raises(AssertionError, match=r"Guard failed: x.size\(\)\[1\] == 4"):
        program.module()(torch.ones(3, 5))
    with pytest.raises(AssertionError, match=r"Guard failed: x.size\(\)\[0\] <= 9"):
        program.module()(torch.ones(10, 4))
    program.module()(torch.ones(5, 4))[0].sum().backward()
    assert module.layers[0].weight.grad is not None


def test_sizes_follow_from_others(torch, export):
    torch.manual_seed(0)
    F, Dim = torch.nn.functional, export.Dim
    convolved = module_of(
        torch,
        lambda layers, x: (lambda h: (h.view(h.size(0), 4, -1), F.pad(h, (0, h.shape[2])), h.shape[2] * h.shape[3]))(
            layers[0](x)
        ),
        torch.nn.Conv2d(2, 4, 3, stride=2, padding=1),
    )
    shapes = {"x": {0: Dim("n"), 2: Dim("h", min=4), 3: Dim("w", min=4)}}
    agree(
        torch,
        export,
        convolved,
        (torch.randn(2, 2, 8, 8),),
        shapes,
        (torch.ones(5, 2, 9, 13),),
        (torch.ones(1, 2, 7, 4),),
    )
    attends = module_of(
        torch,
        lambda layers, q, k: F.scaled_dot_product_attention(
            q.view(q.size(0), q.size(1), 2, 4).transpose(1, 2), *[k.view(k.size(0), -1, 2, 4).transpose(1, 2)] * 2
        ).transpose(1, 2).reshape(q.shape) + torch.arange(q.size(1))[:, None],
    )  # fmt: skip
    batch = Dim("batch")
    shapes = ({0: batch, 1: Dim("queries")}, {0: batch, 1: Dim("keys")})
    agree(
        torch,
        export,
        attends,
        (torch.randn(2, 6, 8), torch.randn(2, 5, 8)),
        shapes,
        (torch.ones(3, 4, 8), torch.ones(3, 9, 8)),
    )


def test_dimensions_that_are_equal_or_derived(torch, export):
    Dim = export.Dim
    adds = module_of(torch, lambda layers, x, y: x + y[1:])
    batch = Dim("batch")
    shapes = {"x": {0: batch}, "y": {0: batch + 1}}
    program = agree(torch, export, adds, (torch.ones(5), torch.ones(6)), shapes, (torch.ones(8), torch.ones(9)))
    assert [str(bounds) for bounds in program.range_constraints.values()] == ["VR[0, int_oo]", "VR[1, int_oo]"]
    with pytest.raises(AssertionError, match="Guard failed"):
        program.module()(torch.ones(8), torch.ones(8))
    both = module_of(torch, lambda layers, x, y: (x + y, torch.cat([x, y])))
    example = (torch.ones(5, 2), torch.ones(5, 2))
    with pytest.raises(RuntimeError, match="must always be equal"):
        export.export(both, example, dynamic_shapes=({0: batch}, {0: Dim("other")}))
    with pytest.raises(RuntimeError):
        export.export(both, (torch.ones(5, 2), torch.ones(6, 2)), dynamic_shapes=({0: batch}, {0: batch}))
    automatic = {0: Dim.AUTO, 1: Dim.AUTO}
    agree(torch, export, both, example, (automatic, automatic), (torch.ones(7, 3), torch.ones(7, 3)))


def test_dimensions_that_are_not_dynamic_are_named(torch, export):
    Dim = export.Dim
    linear = module_of(torch, lambda layers, x: layers[0](x), torch.nn.Linear(4, 3))
    example = (torch.ones(5, 4),)
    for dimension in (Dim("features"), Dim.DYNAMIC):
        with pytest.raises(RuntimeError, match=r"You marked (features|L\['x'\].size\(\)\[1\]) as dynamic"):
            export.export(linear, example, dynamic_shapes={"x": {1: dimension}})
    program = export.export(linear, example, dynamic_shapes={"x": {0: Dim.AUTO, 1: Dim.AUTO}})
    assert program.module()(torch.ones(7, 4)).shape == (7, 3) and len(program.range_constraints) == 1
    branches = module_of(torch, lambda layers, x: x * 2 if x.shape[0] > 3 else x)
    with pytest.raises(RuntimeError, match="batch"):
        export.export(branches, example, dynamic_shapes={"x": {0: Dim("batch")}})
    program = export.export(branches, example, dynamic_shapes={"x": {0: Dim("batch", min=4)}})
    assert program.module()(torch.ones(4, 1).expand(4, 4)).sum() == 32


def test_specifications_that_do_not_fit(torch, export):
    Dim = export.Dim
    linear = module_of(torch, lambda layers, x: layers[0](x), torch.nn.Linear(4, 3))
    with pytest.raises(RuntimeError, match=r"its top-level keys must be the arg names \['x'\]"):
        export.export(linear, (torch.ones(5, 4),), dynamic_shapes={"z": None})
    with pytest.raises(RuntimeError):
        export.export(linear, (torch.ones(5, 4),), dynamic_shapes={"x": [None]})
    with pytest.raises(AssertionError, match="Cannot create Dim with inconsistent min=5, max=3"):
        Dim("a", min=5, max=3)
    with pytest.raises(AssertionError, match="Dim name must be a valid identifier, got 1a"):
        Dim("1a")
    assert repr(Dim("batch")) == "Dim('batch', min=0)" and repr(2 * Dim("b") + 1) == "2*b + 1"
    assert [d.__name__ for d in export.dims("a", "b", min=1)] == ["a", "b"]


def test_values_that_a_graph_cannot_show_are_refused(gradloom):
    torch, export = gradloom, gradloom.export
    batch = {"x": {0: export.Dim("batch")}}
    constant = module_of(torch, lambda layers, x: x + torch.tensor([1.0] * x.shape[0]))
    with pytest.raises(export._dimensions.UserError, match="the constant _tensor_constant0 depends on a dynamic size"):
        export.export(constant, (torch.ones(5),), dynamic_shapes=batch)
    squares = module_of(torch, lambda layers, x: x * (x.shape[0] ** 3 + 1))
    with pytest.raises(export._dimensions.UserError, match="which follows from no size of a tensor before it"):
        export.export(squares, (torch.ones(5),), dynamic_shapes=batch)
    counts = module_of(torch, lambda layers, x: sum(x[i] for i in range(x.shape[0])))
    with pytest.raises(export._dimensions.UserError, match="as dynamic but the program does not hold"):
        export.export(counts, (torch.ones(5),), dynamic_shapes=batch)
    torch.manual_seed(3)
    before = torch.get_rng_state()
    export.export(module_of(torch, lambda layers, x: x + torch.rand(x.shape)), (torch.ones(5),), dynamic_shapes=batch)
    assert torch.equal(torch.get_rng_state(), before)
