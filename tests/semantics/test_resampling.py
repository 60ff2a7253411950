"""Interpolation: which positions are sampled, what a scale means, and what does not leak into neighbours."""

from __future__ import annotations

import pytest

MODES = [
    ("nearest", 1),
    ("nearest-exact", 1),
    ("linear", 1),
    ("nearest", 2),
    ("bilinear", 2),
    ("bicubic", 2),
    ("nearest-exact", 3),
    ("trilinear", 3),
]


def row(torch, *values):
    return torch.tensor([[values]])


def test_corners_are_aligned_by_edges_or_by_centres(torch):
    F = torch.nn.functional
    x = row(torch, 0.0, 4.0)
    assert F.interpolate(x, size=4, mode="linear").tolist() == [[[0, 1, 3, 4]]]
    assert F.interpolate(x, size=5, mode="linear", align_corners=True).tolist() == [[[0, 1, 2, 3, 4]]]


def test_a_scale_is_used_as_given_unless_it_is_recomputed(torch):
    F = torch.nn.functional
    x = row(torch, 0.0, 8.0, 16.0)
    given = F.interpolate(x, scale_factor=1.6, mode="linear")
    again = F.interpolate(x, scale_factor=1.6, mode="linear", recompute_scale_factor=True)
    torch.testing.assert_close(given, row(torch, 0.0, 3.5, 8.5, 13.5))
    torch.testing.assert_close(again, row(torch, 0.0, 5.0, 11.0, 16.0))


def test_nearest_takes_the_lower_neighbour_and_exact_the_nearer(torch):
    F = torch.nn.functional
    x = row(torch, 0.0, 1.0, 2.0, 3.0, 4.0)
    assert F.interpolate(x, size=3).tolist() == [[[0, 1, 3]]]
    assert F.interpolate(x, size=3, mode="nearest-exact").tolist() == [[[0, 2, 4]]]


@pytest.mark.parametrize(("mode", "dims"), MODES, ids=lambda v: str(v))
def test_the_gradient_of_a_sum_counts_how_often_an_element_is_used(torch, mode, dims):
    x = torch.ones(1, 2, *(4,) * dims, dtype=torch.float64, requires_grad=True)
    out = torch.nn.functional.interpolate(x, size=(7,) * dims, mode=mode)
    out.sum().backward()
    torch.testing.assert_close(out.detach(), torch.ones_like(out))
    torch.testing.assert_close(x.grad.sum(), torch.tensor(2.0 * 7**dims, dtype=torch.float64))


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_an_infinite_element_reaches_its_neighbours_only(torch, value, mode):
    x = torch.zeros(1, 1, 12, 12)
    x[0, 0, 6, 6] = value
    x.requires_grad_()
    out = torch.nn.functional.interpolate(x, size=(24, 24), mode=mode)
    assert bool(out[0, 0, :8].isfinite().all()) and bool(out[0, 0, :, 18:].isfinite().all())
    assert not bool(out.isfinite().all())
    weight = torch.zeros(1, 1, 24, 24)
    weight[0, 0, 12, 12] = value
    (grad,) = torch.autograd.grad(out, x, weight)
    assert bool(grad[0, 0, :3].isfinite().all()) and not bool(grad.isfinite().all())


def test_bytes_are_rounded_once_per_dimension(torch):
    x = torch.tensor([[[[0, 255, 3], [9, 100, 201]]]], dtype=torch.uint8)
    F = torch.nn.functional
    out = F.interpolate(x, size=(3, 4), mode="bilinear")
    assert out.tolist() == [[[[0, 159, 161, 3], [5, 113, 150, 102], [9, 66, 138, 201]]]]
    assert F.interpolate(x, size=(1, 2), mode="bilinear", antialias=True).tolist() == [[[[70, 131]]]]


@pytest.mark.parametrize("antialias", [False, True])
def test_halving_an_image_averages_it_only_with_antialiasing(torch, antialias):
    x = torch.arange(16.0).reshape(1, 1, 4, 4)
    out = torch.nn.functional.interpolate(x, size=(1, 1), mode="bilinear", antialias=antialias)
    torch.testing.assert_close(out, torch.full((1, 1, 1, 1), 7.5))
    spike = torch.zeros(1, 1, 8, 8)
    spike[0, 0, 0, 0] = 64.0
    out = torch.nn.functional.interpolate(spike, size=(2, 2), mode="bilinear", antialias=antialias)
    assert bool(out[0, 0, 0, 0] > 0) is antialias


def test_the_node_and_what_it_saves(torch):
    x = torch.ones(1, 1, 2, 2, requires_grad=True)
    node = torch.nn.functional.interpolate(x, scale_factor=2, mode="bilinear").grad_fn
    assert node.name() == "UpsampleBilinear2DBackward0"
    assert tuple(node._saved_output_size) == (4, 4) and tuple(node._saved_self_sym_sizes) == (1, 1, 2, 2)
    assert node._saved_align_corners is False and node._saved_scales_h == node._saved_scales_w == 2.0


def test_vmap_folds_its_batch_into_the_images(torch):
    x = torch.arange(48.0).reshape(3, 2, 2, 2, 2)

    def each(image):
        return torch.nn.functional.interpolate(image, size=(3, 3), mode="bicubic")

    torch.testing.assert_close(torch.func.vmap(each)(x), torch.stack([each(image) for image in x]))
    grads = torch.func.vmap(torch.func.grad(lambda image: (each(image) ** 2).sum()))(x)
    expected = torch.stack([torch.func.grad(lambda image: (each(image) ** 2).sum())(image) for image in x])
    torch.testing.assert_close(grads, expected)


@pytest.mark.parametrize(
    ("mode", "padding", "expected"),
    [
        ("reflect", (2, 1), [2, 1, 0, 1, 2, 3, 2]),
        ("replicate", (2, 1), [0, 0, 0, 1, 2, 3, 3]),
        ("circular", (2, 1), [2, 3, 0, 1, 2, 3, 0]),
        ("reflect", (-1, 2), [1, 2, 3, 2, 1]),
        ("replicate", (3, -2), [0, 0, 0, 0, 1]),
        ("circular", (-1, 3), [1, 2, 3, 1, 2, 3]),
    ],
)
def test_padding_and_its_gradient(torch, mode, padding, expected):
    x = row(torch, 0.0, 1.0, 2.0, 3.0).requires_grad_()
    out = torch.nn.functional.pad(x, padding, mode=mode)
    assert out.tolist() == [[expected]]
    weight = torch.arange(1.0, len(expected) + 1)
    out.backward(weight.reshape(1, 1, -1))
    assert x.grad.tolist() == [[[sum(w + 1 for w, n in enumerate(expected) if n == k) for k in range(4)]]]


def test_images_are_padded_at_corners_by_both_dimensions(torch):
    x = torch.arange(6.0).reshape(1, 2, 3)
    F = torch.nn.functional
    assert F.pad(x, (1, 0, 0, 1), mode="reflect").tolist() == [[[1, 0, 1, 2], [4, 3, 4, 5], [1, 0, 1, 2]]]
    assert F.pad(x, (1, 0, 0, 1), mode="replicate").tolist() == [[[0, 0, 1, 2], [3, 3, 4, 5], [3, 3, 4, 5]]]
    assert F.pad(x, (1, 0, 0, 1), mode="circular").tolist() == [[[2, 0, 1, 2], [5, 3, 4, 5], [2, 0, 1, 2]]]


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_the_identity_map_samples_the_image_itself(torch, mode, align):
    F = torch.nn.functional
    x = torch.arange(24.0, dtype=torch.float64).reshape(1, 2, 3, 4)
    theta = torch.eye(2, 3, dtype=torch.float64).unsqueeze(0)
    grid = F.affine_grid(theta, (1, 2, 3, 4), align_corners=align)
    out = F.grid_sample(x, grid, mode=mode, padding_mode="border", align_corners=align)
    torch.testing.assert_close(out, x)


@pytest.mark.parametrize(("padding", "expected"), [("zeros", 0.0), ("border", 3.0), ("reflection", 2.0)])
def test_a_point_outside_of_the_image(torch, padding, expected):
    x = torch.arange(4.0).reshape(1, 1, 1, 4)
    grid = torch.tensor([[[[1.9, 0.0]]]])  # 5.3 in elements of the image, whose edges are -0.5 and 3.5
    out = torch.nn.functional.grid_sample(x, grid, mode="nearest", padding_mode=padding, align_corners=False)
    assert out.item() == expected


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_second_derivatives_of_sampling(torch, mode):
    x = torch.arange(12.0, dtype=torch.float64).sin().reshape(1, 1, 3, 4).requires_grad_()
    grid = (torch.arange(8.0, dtype=torch.float64).cos().reshape(1, 2, 2, 2) * 0.83).requires_grad_()

    def sample(x, grid):
        return torch.nn.functional.grid_sample(x, grid, mode=mode, align_corners=False)

    assert torch.autograd.gradgradcheck(sample, (x, grid))


def test_sampling_names_its_node_and_gives_no_gradient_that_is_not_asked_for(torch):
    x = torch.ones(1, 1, 2, 2, requires_grad=True)
    grid = torch.zeros(1, 1, 1, 2)
    out = torch.nn.functional.grid_sample(x, grid, align_corners=False)
    assert out.grad_fn.name() == "GridSampler2DBackward0"
    assert out.grad_fn.next_functions[1][0] is None
    out.sum().backward()
    assert x.grad.tolist() == [[[[0.25, 0.25], [0.25, 0.25]]]]


@pytest.mark.parametrize("dims", [2, 3])
def test_fractional_pooling_takes_maxima_at_random_places_that_the_samples_decide(torch, dims):
    F = torch.nn.functional
    x = torch.arange(float(6**dims)).reshape(1, 1, *(6,) * dims).requires_grad_()
    pool = getattr(F, f"fractional_max_pool{dims}d")
    found = [
        pool(x, 2, output_size=4, _random_samples=torch.full((1, 1, dims), s), return_indices=True) for s in (0.0, 0.6)
    ]
    for out, indices in found:
        assert out.long().tolist() == indices.tolist() and out.flatten()[-1] == 6**dims - 1
    assert found[0][0].tolist() != found[1][0].tolist()
    found[0][0].sum().backward()
    assert x.grad.sum() == 4**dims and x.grad.flatten()[found[0][1].flatten()].min() >= 1


def test_distances_of_pairs_and_their_gradient(torch):
    x = torch.tensor([[0.0, 0], [3, 4], [0, 0]], dtype=torch.float64, requires_grad=True)
    out = torch.pdist(x)
    assert out.tolist() == [5, 0, 5]  # rows 0 and 1, 0 and 2, 1 and 2
    out.sum().backward()
    torch.testing.assert_close(x.grad, torch.tensor([[-0.6, -0.8], [1.2, 1.6], [-0.6, -0.8]], dtype=torch.float64))


@pytest.mark.parametrize("row", [[1.0, 1, -1], [float("nan"), 1, 0], [float("-inf"), 1, 0], [0, 0, 0]])
@pytest.mark.parametrize("name", ["pdist", "cdist"])
def test_each_of_several_largest_differences_gets_the_gradient_of_the_maximum_distance(torch, name, row):
    x = torch.tensor([[0.0, 0, 0], row], dtype=torch.float64, requires_grad=True)
    other = torch.zeros(1, 3, dtype=torch.float64)
    out = torch.pdist(x, float("inf")) if name == "pdist" else torch.cdist(x[1:], other, float("inf"))
    (found,) = torch.autograd.grad(out, x, 2 * torch.ones_like(out))
    nan = float("nan")
    expected = {0: [0, 0, 0], 1: [2, 2, -2], float("-inf"): [nan, 0, 0]}.get(
        row[0], [nan, nan, nan] if name == "pdist" else [nan, 2, 0]
    )
    expected = torch.tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(found[1], expected, equal_nan=True)
    torch.testing.assert_close(found[0], -expected if name == "pdist" else torch.zeros_like(expected), equal_nan=True)


def test_convolution_of_time_steps_is_conv1d_in_another_order(torch):
    F = torch.nn.functional
    x = torch.arange(30.0, dtype=torch.float64).cos().reshape(5, 2, 3).requires_grad_()
    weight = torch.arange(24.0, dtype=torch.float64).sin().reshape(2, 3, 4).requires_grad_()
    bias = torch.arange(4.0, dtype=torch.float64).requires_grad_()
    out = torch.conv_tbc(x, weight, bias, 1)
    expected = F.conv1d(x.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=1).permute(2, 0, 1)
    torch.testing.assert_close(out, expected)
    assert out.grad_fn.name() == "ConvTbcBackward0" and out.is_contiguous()
    found, wanted = (torch.autograd.grad((y * y).sum(), (x, weight, bias)) for y in (out, expected))
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b)


def test_sampling_of_neither_images_nor_volumes_is_refused(torch):
    sample, zeros = torch.nn.functional.grid_sample, torch.zeros
    with pytest.raises(RuntimeError, match=r"expected grid to have size 1 in last dimension, .* sizes \[2, 3, 2\]"):
        sample(zeros(2, 3, 4), zeros(2, 3, 2), align_corners=False)
    with pytest.raises(RuntimeError, match="expected 5D input and grid with same number of dimensions"):
        sample(zeros(2, 3), zeros(2, 0), align_corners=False)
    with pytest.raises(RuntimeError, match="expected grid and input to have same batch size"):
        sample(zeros(2, 3, 4, 4), zeros(1, 3, 4, 2), align_corners=False)
