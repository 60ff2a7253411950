"""In which order results lie in memory, and which are views: strides and memory formats that programs rely on."""

from __future__ import annotations

import pytest


def images(torch, *shape):
    """Numbers in order, with the channels innermost in memory."""
    shape = shape or (2, 3, 4, 5)
    count = 1
    for n in shape:
        count *= n
    return torch.arange(float(count)).reshape(shape).contiguous(memory_format=torch.channels_last)


def is_last(torch, tensor):
    return tensor.is_contiguous(memory_format=torch.channels_last) and not tensor.is_contiguous()


@pytest.mark.parametrize("name", ["sum", "mean", "amax", "logsumexp", "std", "var", "norm", "nansum", "argmax"])
@pytest.mark.parametrize("keepdim", [False, True])
def test_a_reduction_is_contiguous_whatever_its_input_is(torch, name, keepdim):
    turned = torch.arange(24.0).reshape(2, 3, 4).permute(2, 1, 0)
    for dim in range(3):
        found = getattr(torch, name)(turned, dim=dim, keepdim=keepdim)
        assert found.is_contiguous()
        found.view(-1)


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "logcumsumexp"])
def test_running_results_are_contiguous(torch, name):
    assert getattr(torch, name)(torch.ones(2, 3).t(), 0).stride() == (2, 1)


def test_sorted_elements_and_their_places_lie_as_the_input_does(torch):
    turned = torch.tensor([[3.0, 1, 2], [0, 5, 4]]).t()
    values, places = turned.sort(0)
    assert values.stride() == places.stride() == turned.argsort(0).stride() == (1, 3)
    assert values.tolist() == [[1, 0], [2, 4], [3, 5]] and places.tolist() == [[1, 0], [2, 2], [0, 1]]


@pytest.mark.parametrize(
    "call",
    [
        lambda t, x, i: x.scatter(0, i, 1.0),
        lambda t, x, i: x.scatter_add(0, i, x),
        lambda t, x, i: x.gather(0, i),
        lambda t, x, i: x.index_add(0, i[0][:1], x[:1]),
        lambda t, x, i: x.masked_fill(x > 1, 0.0),
        lambda t, x, i: x.masked_scatter(x > 9, x),
        lambda t, x, i: x.repeat(1, 1),
        lambda t, x, i: x.roll(1, 0),
    ],
    ids=["scatter", "scatter_add", "gather", "index_add", "masked_fill", "masked_scatter", "repeat", "roll"],
)
def test_copies_that_are_written_to_at_places_are_contiguous(torch, call):
    assert call(torch, torch.ones(3, 3).t() + 0, torch.zeros(3, 3, dtype=torch.int64)).is_contiguous()


def test_a_copy_without_a_format_keeps_the_strides_of_what_has_no_gaps(torch):
    turned = torch.ones(4, 3, 2).permute(2, 0, 1)
    column = torch.ones(1, 5).t()
    for like in (torch.clone, torch.empty_like, torch.zeros_like, torch.rand_like, torch.Tensor.double, torch.exp):
        assert like(turned).stride() == (1, 6, 2)
    for like in (torch.clone, torch.empty_like, torch.ones_like, torch.Tensor.double):
        assert like(column).stride() == column.stride() == (1, 5)


def test_a_copy_without_a_format_of_what_has_gaps_keeps_the_order_only(torch):
    assert torch.ones(4, 6)[:, ::2].t().clone().stride() == (1, 3)
    assert torch.ones(1, 3).expand(4, 3).clone().stride() == (3, 1)
    assert torch.ones(4, 1).expand(4, 3).t().clone().is_contiguous()
    assert torch.zeros_like(torch.ones(3).expand(2, 3)).stride() == (3, 1)


def test_a_copy_with_a_format_has_that_format(torch):
    turned = torch.ones(2, 3).t()
    assert turned.clone(memory_format=torch.contiguous_format).is_contiguous()
    assert turned.clone(memory_format=torch.preserve_format).stride() == (1, 3)
    assert torch.ones(2, 3, 4, 5).clone(memory_format=torch.channels_last).stride() == (60, 1, 15, 3)
    assert torch.empty_like(images(torch), memory_format=torch.contiguous_format).is_contiguous()


def test_to_a_format_gives_the_tensor_itself_where_its_strides_suggest_that_format(torch):
    turned, last = torch.ones(2, 3).t(), images(torch)
    assert turned.to(memory_format=torch.contiguous_format) is turned
    assert turned.contiguous() is not turned
    assert last.to(memory_format=torch.channels_last) is last
    assert last[:, :, ::2].to(memory_format=torch.channels_last).stride() == (60, 1, 30, 3)
    assert last.to(memory_format=torch.contiguous_format).is_contiguous()


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("transposed", [False, True])
def test_a_convolution_is_channels_last_if_an_image_or_the_weight_is(torch, dims, transposed):
    convolve = getattr(torch.nn.functional, f"conv{'_transpose' * transposed}{dims}d")
    order = {2: torch.channels_last, 3: torch.channels_last_3d}.get(dims)
    x, w = torch.ones(2, 4, *[5] * dims), torch.ones(4, 4, *[3] * dims)
    assert convolve(x, w).is_contiguous()
    if order is None:  # of rows only the weight is asked
        turned = [t.transpose(1, 2).contiguous().transpose(1, 2) for t in (x, w)]
        assert convolve(turned[0], w).is_contiguous()
        assert convolve(x, turned[1]).transpose(1, 2).is_contiguous()
        return
    for a, b in ((x.contiguous(memory_format=order), w), (x, w.contiguous(memory_format=order))):
        a, b = a.detach().requires_grad_(), b.detach().requires_grad_()
        found = convolve(a, b)
        for tensor in (found, *torch.autograd.grad(found.sum(), (a, b))):
            assert tensor.is_contiguous(memory_format=order) and not tensor.is_contiguous()


@pytest.mark.parametrize(
    "call",
    [
        lambda F, x: F.max_pool2d(x, 2),
        lambda F, x: F.avg_pool2d(x, 2),
        lambda F, x: F.adaptive_avg_pool2d(x, 2),
        lambda F, x: F.adaptive_max_pool2d(x, 2),
        lambda F, x: F.max_pool2d(x, 2, return_indices=True)[1],
        lambda F, x: F.batch_norm(x, None, None, training=True),
        lambda F, x: F.group_norm(x, 1),
        lambda F, x: F.pad(x, (1, 1)),
        lambda F, x: F.relu(x),
        lambda F, x: F.glu(x, 2),
        lambda F, x: F.dropout(x, 0.5),
        lambda F, x: F.channel_shuffle(x, 3),
        lambda F, x: F.rms_norm(x, (6,)),
    ],
    ids=[
        "max_pool2d",
        "avg_pool2d",
        "adaptive_avg_pool2d",
        "adaptive_max_pool2d",
        "indices",
        "batch_norm",
        "group_norm",
        "pad",
        "relu",
        "glu",
        "dropout",
        "channel_shuffle",
        "rms_norm",
    ],
)
def test_what_is_made_of_channels_last_images_is_channels_last(torch, call):
    assert is_last(torch, call(torch.nn.functional, images(torch, 2, 3, 6, 6)))


def test_joined_images_are_channels_last_if_all_are(torch):
    last, first = images(torch), images(torch).contiguous()
    assert is_last(torch, torch.cat([last, last], 1))
    assert torch.cat([last, first], 1).is_contiguous()
    assert torch.stack([last, last]).stride() == (120, 60, 1, 15, 3)
    assert torch.stack([last, last], 1).stride() == (120, 3, 1, 30, 6)
    assert torch.stack([last, last], -1).is_contiguous()
    assert not torch.stack([last, last])._is_view()


@pytest.mark.parametrize(
    "call",
    [
        lambda t, a, b: t.addcmul(a, b, b),
        lambda t, a, b: t.addcdiv(a, b, b + 1),
        lambda t, a, b: t.lerp(a, b, 0.5),
        lambda t, a, b: t.lerp(a, b, b),
        lambda t, a, b: t.clamp(a, b, b),
        lambda t, a, b: t.where(a > 1, b, b),
        lambda t, a, b: t.complex(a, b),
        lambda t, a, b: t.isclose(a, b),
    ],
    ids=["addcmul", "addcdiv", "lerp", "lerp by a tensor", "clamp", "where", "complex", "isclose"],
)
def test_of_several_operands_the_first_decides_in_which_order_the_result_lies(torch, call):
    plain, turned = torch.ones(3, 4), torch.ones(4, 3).t()
    assert call(torch, turned, plain).stride() == (1, 3)
    assert call(torch, plain, turned).stride() == (4, 1)


def test_what_is_indexed_lies_in_the_order_of_the_dimensions_that_are_not(torch):
    turned = torch.arange(24.0).reshape(3, 4, 2).permute(2, 1, 0)
    places = torch.tensor([0, 1, 2])
    assert turned[:, places].stride() == (1, 2, 6)
    assert turned[..., places].stride() == (3, 6, 1)
    assert torch.arange(12.0)[torch.tensor([[0, 1, 2], [3, 4, 5]]).t()].stride() == (1, 3)
    assert torch.ones(3, 4).t()[:, torch.tensor([True, False, True])].is_contiguous()


def test_a_part_that_is_put_into_a_copy_leaves_it_where_it_was_in_memory(torch):
    memory = torch.arange(40.0).reshape(5, 8)
    seen = memory[1:4, 2:8:2]
    for found in (
        seen.select_scatter(torch.zeros(3), 0, 1),
        seen.diagonal_scatter(torch.zeros(3)),
        seen.slice_scatter(torch.zeros(1, 3), 0, 0, 1),
    ):
        assert found.stride() == (8, 2) and found.storage_offset() == 10
        assert not found._is_view() and found.data_ptr() != seen.data_ptr()
    assert seen[:1].expand(3, 3).select_scatter(torch.zeros(3), 0, 1).stride() == (3, 1)


def test_the_gradient_of_a_mean_has_memory_of_its_own_and_that_of_a_sum_has_not(torch):
    x = torch.ones(2, 3, requires_grad=True)
    (gradient,) = torch.autograd.grad(x.mean(), x)
    assert gradient.stride() == (3, 1)
    gradient.add_(1)
    assert torch.autograd.grad(x.sum(), x)[0].stride() == (0, 0)


def test_a_leaf_keeps_its_gradient_in_its_own_layout_unless_that_has_gaps(torch):
    for leaf, expected in (
        (torch.ones(3, 2).t(), (1, 2)),
        (images(torch, 2, 3, 2, 2), (12, 1, 6, 3)),
        (torch.ones(4, 6)[:, ::2], (3, 1)),
        (torch.ones(1, 3).expand(2, 3), (3, 1)),
    ):
        leaf = leaf.detach().requires_grad_()
        leaf.exp().mul(torch.ones(leaf.shape)).sum().backward()
        assert leaf.grad.stride() == expected
        with torch.no_grad():
            leaf.grad.mul_(2)
        leaf.exp().sum().backward()
        assert leaf.grad.stride() == expected


def test_the_places_of_true_elements_are_columns_of_one_matrix(torch):
    rows, columns = torch.where(torch.ones(2, 3) > 0)
    assert rows._is_view() and rows._base is columns._base and rows.stride() == (1,)


def test_products_of_a_batch_and_a_vector_are_no_views(torch):
    batch = torch.ones(2, 3, 4, requires_grad=True)
    for found in (batch @ torch.ones(4), batch.permute(2, 1, 0) @ torch.ones(2), torch.ones(3) @ batch):
        assert not found._is_view() and found.grad_fn.name() == "UnsafeViewBackward0"


def test_edges_that_were_given_to_a_histogram_are_returned_themselves(torch):
    edges = [torch.tensor([0.0, 1, 2]), torch.tensor([0.0, 2])]
    _, found = torch.histogramdd(torch.ones(4, 2), edges)
    assert found[0] is edges[0] and found[1] is edges[1]


@pytest.mark.parametrize("q", [0.5, [0.25, 0.5]])
def test_quantiles_are_no_views(torch, q):
    q = torch.tensor(q) if isinstance(q, list) else q
    for dim, keepdim in ((None, False), (None, True), (0, False), (1, True)):
        assert not torch.quantile(torch.ones(3, 4), q, dim, keepdim)._is_view()


def test_a_module_is_converted_to_a_memory_format_where_it_has_four_dimensions(torch):
    module = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Flatten(), torch.nn.Linear(4, 2)
    )
    weight = module[0].weight
    assert module.to(memory_format=torch.channels_last) is module
    assert module[0].weight is weight and is_last(torch, weight)
    assert module[3].weight.stride() == (4, 1)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    module[0](torch.ones(1, 3, 3, 3)).sum().backward()
    optimizer.step()
    assert is_last(torch, weight.grad) and is_last(torch, optimizer.state[weight]["momentum_buffer"])
    assert is_last(torch, module.to(torch.float64)[0].weight)
    assert module.to(memory_format=torch.contiguous_format)[0].weight.is_contiguous()
