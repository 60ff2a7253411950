"""Functions that few programs call: control flow, sizes, products with sparse results, devices, settings of modules."""

from importlib import import_module

import pytest


def test_cond_calls_one_of_two_functions(torch):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    found = [
        torch.cond(torch.tensor(p), lambda a: {"y": a * 2}, lambda a: {"y": a * 3}, (x,))["y"] for p in (True, False)
    ]
    assert found[0].tolist() == [2, 4] and found[1].tolist() == [3, 6]
    assert torch.autograd.grad(found[1].sum(), x)[0].tolist() == [3, 3]
    for arguments, message in (
        (("a", torch.sin, torch.cos), "Expected pred to be bool or tensor, but got a"),
        ((torch.ones(2), torch.sin, torch.cos), "Expected pred to be bool or single-element tensor"),
        ((torch.tensor(True), 3, torch.cos), "Expect both branches to be callable"),
        ((torch.tensor(True), torch.sin, torch.cos, x), "Expect operands to be a tuple of possibly nested"),
    ):
        with pytest.raises(RuntimeError, match=message):
            torch.cond(*arguments)


def test_cond_within_vmap_chooses_for_each_example(torch):
    x = torch.tensor([1.0, -2.0, 3.0])
    found = torch.vmap(lambda a: torch.cond(a > 0, lambda a: a * 2, lambda a: a * 10, (a,)))(x)
    assert found.tolist() == [2, -20, 6]


def test_while_loop_calls_a_function_with_its_own_results(torch):
    x = torch.ones(2, requires_grad=True)
    count, found = torch.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (torch.tensor(0), x))
    assert count.item() == 3 and found.tolist() == [8, 8]
    assert torch.autograd.grad(found.sum(), x)[0].tolist() == [8, 8]
    with pytest.raises(RuntimeError, match="Expect cond_fn and body_fn to be callable"):
        torch.while_loop(3, lambda i: (i,), (torch.tensor(0),))


def test_functions_of_symbolic_numbers_take_numbers(torch):
    assert (torch.sym_max(3, 2.0), torch.sym_min(3, 2), torch.sym_int(-2.7), torch.sym_float(3)) == (3.0, 2, -2, 3.0)
    assert isinstance(torch.sym_max(3, 2.0), float) and torch.sym_not(False) is True and torch.sym_sqrt(4) == 2
    assert torch.sym_ite(True, 1, 2) == 1 and torch.sym_sum([1, 2, 3]) == torch.sym_sum(1, 2, 3) == 6
    assert not isinstance(3, torch.SymInt) and not isinstance(3.0, (torch.SymFloat, torch.SymBool))
    torch.sym_constrain_range(3, min=1)
    with pytest.raises(RuntimeError, match=r"Invalid value range for 3 between \[1, 2\]"):
        torch.sym_constrain_range(3, min=1, max=2)
    with pytest.raises(RuntimeError, match=r"must be greater than 2\. got: 2"):
        torch.sym_constrain_range_for_size(1, max=2)


def test_products_with_sparse_results(torch):
    a = torch.tensor([[1.0, 0, 2], [0, 0, 0], [0, 3, 0]]).to_sparse()
    d, s = torch.arange(6.0).reshape(3, 2), torch.tensor([[0.0, 1], [5, 0], [0, 0]]).to_sparse()
    dense = a.to_dense() @ d
    assert a.smm(d)._indices().tolist() == [[0, 0, 2, 2], [0, 1, 0, 1]] and torch.equal(
        torch.smm(a, d).to_dense(), dense
    )
    assert torch.hspmm(a, d)._indices().tolist() == [[0, 2]] and torch.equal(torch.hsmm(a, d).to_dense(), dense)
    found = torch.sspaddmm(s, a, d, beta=2, alpha=3)
    assert not found.is_coalesced() and torch.equal(found.to_dense(), 2 * s.to_dense() + 3 * dense)
    assert torch.equal(torch.dsmm(a, d), dense)
    with pytest.raises(RuntimeError, match="can only be called on sparse tensors"):
        torch.smm(d, d.T)


def test_sparse_tensors_change_their_sizes(torch):
    x = torch.ones(2, 2).to_sparse()
    assert x.sparse_resize_((3, 4), 2, 0) is x and x.shape == (3, 4) and x._nnz() == 4
    with pytest.raises(RuntimeError, match=r"shrinking the size of sparse dimensions \(from \[3, 4\] to \[1, 4\]\)"):
        x.sparse_resize_((1, 4), 2, 0)
    assert x.sparse_resize_and_clear_((1, 4, 2), 2, 1).shape == (1, 4, 2) and x._nnz() == 0
    assert torch.resize_as_sparse_(x, torch.eye(3).to_sparse()).shape == (3, 3)
    with pytest.raises(NotImplementedError, match="Could not run 'aten::resize_as_sparse_'"):
        torch.ones(2).resize_as_sparse_(torch.ones(2))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_facts_about_devices(torch):
    assert torch.get_device(torch.ones(1)) == -1 and torch.get_device_module("cpu") is torch.cpu
    assert not torch.is_vulkan_available() and torch.thread_safe_generator() is None
    assert not torch.is_autocast_xla_enabled() and torch.get_autocast_ipu_dtype() is torch.float16
    x = torch.ones(2)
    for call, error in ((x.xpu, AssertionError), (x.ipu, RuntimeError), (x.mtia, AssertionError)):
        with pytest.raises(error):
            call()
    with pytest.raises(RuntimeError, match="crow_indices expected sparse row compressed tensor layout but got Strided"):
        x.crow_indices()
    with pytest.raises(NotImplementedError, match="Could not run 'aten::batch_norm_stats' .* 'CPU' backend"):
        torch.batch_norm_stats(torch.ones(2, 2), 1e-5)
    assert torch.dequantize(torch.ones(2).long()).dtype is torch.float32
    assert torch.wait(torch.fork(lambda a, b: a + b, x, b=1)).tolist() == [2, 2]


def test_versions_compare_by_their_numbers(torch):
    version = import_module(f"{torch.__name__}.torch_version").TorchVersion
    assert version("2.10.0") > "2.9" and version("2.1.0a0") < (2, 1) and version("2.1.0+cpu") >= "2.1.0"
    assert version("2.1") == "2.1.0" and version("2.1.0rc1") > "2.1.0b2" and isinstance(version("1.0"), str)


def test_classproperty_is_read_from_the_class(torch):
    class Some:
        @torch.classproperty
        def name(cls):
            return cls.__name__

    assert Some.name == "Some"


def test_batch_statistics_update_running_ones(torch):
    x, mean, variance = torch.arange(12.0).reshape(3, 2, 2), torch.zeros(2), torch.ones(2)
    found = torch.batch_norm_update_stats(x, mean, variance, 0.1)
    channels = x.transpose(0, 1).reshape(2, -1)
    assert torch.allclose(found[0], channels.mean(1)) and torch.allclose(found[1], channels.var(1, correction=0))
    assert torch.allclose(mean, 0.1 * channels.mean(1)) and torch.allclose(variance, 0.9 + 0.1 * channels.var(1))
    base = torch.arange(10)
    assert torch.equal(torch.slice_inverse(base[2:5], base, 0, 2, 5), base)


@pytest.fixture
def future(torch):
    found = import_module(f"{torch.__name__}.__future__")
    yield found
    found.set_swap_module_params_on_conversion(False)
    found.set_overwrite_module_params_on_conversion(False)


def test_conversions_exchange_or_replace_parameters(torch, future):
    net = torch.nn.Linear(2, 2)
    weight = net.weight
    weight.grad = torch.ones(2, 2)
    future.set_swap_module_params_on_conversion(True)
    net.double()
    assert net.weight is weight and weight.dtype is weight.grad.dtype is torch.float64 and weight.requires_grad
    saved = {name: 2 * value for name, value in net.state_dict().items()}
    net.load_state_dict(saved)
    assert net.weight is weight and torch.equal(weight, saved["weight"])
    net.load_state_dict(saved, assign=True)
    assert net.weight is weight and weight.requires_grad and weight.data_ptr() == saved["weight"].data_ptr()
    future.set_swap_module_params_on_conversion(False)
    future.set_overwrite_module_params_on_conversion(True)
    net.float()
    assert net.weight is not weight and net.weight.dtype is torch.float32 and weight.dtype is torch.float64


def test_a_subclass_says_what_is_loaded(torch, future):
    class Doubled(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            if function is torch.Tensor.module_load:
                return args[1].detach() * 2
            return super().__torch_function__(function, types, args, kwargs or {})

    net = torch.nn.Linear(1, 1, bias=False)
    net.weight = torch.nn.Parameter(net.weight.detach().as_subclass(Doubled))
    future.set_swap_module_params_on_conversion(True)
    net.load_state_dict({"weight": torch.full((1, 1), 3.0)})
    assert net.weight.item() == 6
    assert torch.ones(2).module_load(torch.zeros(2)).tolist() == [0, 0]


def test_an_optimizer_acts_on_other_parameters_for_a_while(torch):
    p, q = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.zeros(2))
    optimizer = torch.optim.Adam([p], lr=0.1)
    p.grad, q.grad = torch.ones(2), torch.ones(2)
    optimizer.step()
    state = optimizer.state_dict()
    state["param_groups"][0]["lr"] = 1.0
    group, before = optimizer.param_groups[0], p.tolist()
    swap = torch.optim.swap_in_optimizer_params_and_state
    with swap(optimizer, {"q": q}, state):
        assert group["params"][0] is q and group["lr"] == 1.0
        optimizer.step()
    assert q.tolist() == pytest.approx([-1, -1]) and p.tolist() == before
    assert group["params"][0] is p and group["lr"] == 0.1 and list(optimizer.state) == [p]
    for arguments, message in (
        ((torch.optim.Adam([p]), {}, state), "requires initialized optimizer state"),
        ((optimizer, {}, state), "to match optimizer.param_groups ordering"),
        ((optimizer, {"q": q}, {"state": {}, "param_groups": []}), "a different number of parameter groups"),
        ((optimizer, {"q": q}, {**state, "state": {7: {}}}), r"got extra keys \[7\]"),
    ):
        with pytest.raises(RuntimeError, match=message), swap(*arguments):
            pass


def test_functionalize_returns_nothing_that_is_an_argument(torch):
    x = torch.ones(2)
    found = torch.func.functionalize(lambda x: {"y": x.add_(1)})(x)["y"]
    assert found is not x and found.data_ptr() != x.data_ptr() and x.tolist() == found.tolist() == [2, 2]
    assert torch.func.grad(torch.func.functionalize(lambda x: x.clone().mul_(x).sum()))(x).tolist() == [4, 4]
    with pytest.raises(RuntimeError, match="received invalid argument for remove=foo"):
        torch.func.functionalize(lambda x: x, remove="foo")(x)


def test_products_of_groups_of_matrices(torch):
    grouped = torch.nn.functional.grouped_mm
    a, b = torch.randn(8, 8), torch.randn(3, 8, 4)
    ends = torch.tensor([2, 5, 8], dtype=torch.int32)
    expected = torch.cat([a[:2] @ b[0], a[2:5] @ b[1], a[5:] @ b[2]])
    assert torch.allclose(grouped(a, b, offs=ends), expected, atol=1e-5)
    assert torch.allclose(grouped(b.mT.contiguous(), a, offs=ends)[:, :2], b[0].T @ a[:, :2], atol=1e-5)
    assert torch.allclose(grouped(a, a, offs=ends)[1], a[:, 2:5] @ a[2:5], atol=1e-5)
    assert torch.allclose(grouped(b.mT, b), b.mT @ b, atol=1e-5)
    for arguments, message in (
        ((a, b), "Have to provide offsets"),
        ((a[:, :4], b, ends), "contraction dimension of mat_a and mat_b must match"),
        ((a, b, ends.long()), "Offsets have to be int32"),
        ((a, b, ends[:2]), "matrix batch sizes have to match"),
        ((a.double(), b.double(), ends), "Expected mat_a to be Float32, BFloat16 or Float16 matrix, got Double"),
    ):
        with pytest.raises(RuntimeError, match=message):
            grouped(*arguments[:2], offs=arguments[2] if len(arguments) > 2 else None)


def test_products_of_groups_have_gradients(gradloom):
    torch = gradloom  # PyTorch refuses the expanded gradient of a sum
    a, b = torch.randn(6, 8, requires_grad=True), torch.randn(2, 8, 4, requires_grad=True)
    ends = torch.tensor([2, 6], dtype=torch.int32)
    found = torch.autograd.grad(torch.nn.functional.grouped_mm(a, b, offs=ends).sum(), (a, b))
    expected = torch.autograd.grad((a[:2] @ b[0]).sum() + (a[2:] @ b[1]).sum(), (a, b))
    assert all(torch.allclose(x, y, atol=1e-5) for x, y in zip(found, expected, strict=True))


def test_products_of_scaled_matrices(torch):
    functional, float8 = torch.nn.functional, torch.float8_e4m3fn
    kinds = functional.ScalingType
    a, b = torch.randn(5, 16).to(float8), torch.randn(16, 3).to(float8)
    one, rows, columns = torch.tensor(0.5), torch.rand(5, 1), torch.rand(1, 3)

    def scaled(first=a, second=b, scales=(one, one), kind=kinds.TensorWise, **options):
        options.setdefault("output_dtype", torch.float32)
        return functional.scaled_mm(first, second, scales[0], kind, scales[1], kind, **options)

    product = a.float() @ b.float()
    assert torch.allclose(scaled(), product / 4, atol=1e-5)
    assert torch.allclose(scaled(bias=torch.ones(3)), product / 4 + 1, atol=1e-5)
    found = scaled(scales=(rows, columns), kind=kinds.RowWise)
    assert torch.allclose(found, product * rows * columns, atol=1e-5)
    assert scaled(output_dtype=None).dtype is float8
    assert scaled(swizzle_a=functional.SwizzleType.NO_SWIZZLE, contraction_dim=(-1, -2)).shape == (5, 3)
    wide, swizzled = torch.full((1, 16), 448.0).to(float8), functional.SwizzleType.SWIZZLE_32_4_4
    assert scaled(wide, wide.t(), (one * 2, one * 2), output_dtype=float8).tolist() == [[448.0]]
    for call, message in (
        (lambda: scaled(a[0]), "mat_a must be a matrix"),
        (lambda: scaled(second=b[:8]), r"mat_a and mat_b shapes cannot be multiplied \(5x16 and 8x3\)"),
        (lambda: scaled(bias=torch.ones(4)), "Bias must be size 3 but got 4"),
        (lambda: scaled(scales=(rows, one)), "scale_a must have 1 Float element"),
        (lambda: scaled(scales=(rows.t(), columns), kind=kinds.RowWise), r"scale_a must have shape \[5, 1\], got"),
        (lambda: scaled(swizzle_a=swizzled, swizzle_b=swizzled), "CPU does not support swizzle"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(RuntimeError, match="derivative for aten::_scaled_mm_v2 is not implemented"):
        scaled(a.float().requires_grad_().to(float8)).sum().backward()
    with pytest.raises(NotImplementedError, match="Could not run 'aten::_scaled_grouped_mm_v2"):
        wide = torch.ones(1, 16, 16).to(float8).mT
        ends = torch.tensor([5], dtype=torch.int32)
        functional.scaled_grouped_mm(a, wide, one, kinds.TensorWise, one, kinds.TensorWise, offs=ends)


def test_matrices_of_bytes_are_multiplied_in_int32(torch):
    def ramp(*shape):
        return (torch.arange(torch.Size(shape).numel()) % 255 - 127).to(torch.int8).view(shape)

    for n, k, m in ((3, 4, 5), (30, 511, 17), (7, 512, 3), (2, 3000, 2), (0, 4, 5), (3, 0, 2)):
        a, b = ramp(n, k), ramp(m, k).t()
        for left in (a, a.to(torch.uint8)):
            found = torch._int_mm(left, b)
            assert found.dtype is torch.int32 and torch.equal(found, left.int() @ b.int())
    least = torch.full((1, 200_000), -128, dtype=torch.int8)
    assert torch._int_mm(least, least.t()).item() == 200_000 * 2**14 - 2**32
    out = torch.full((3, 5), 7, dtype=torch.int32)
    assert torch._int_mm(ramp(3, 4), ramp(4, 5), out=out) is out
    assert torch.equal(out, ramp(3, 4).int() @ ramp(4, 5).int())
    assert torch.equal(torch._int_mm(ramp(3, 0), ramp(0, 5), out=out), torch.zeros(3, 5, dtype=torch.int32))
    for a, b, kind, words in (
        (
            ramp(3, 4),
            ramp(4, 5).to(torch.uint8),
            RuntimeError,
            "Expected mat2 dtype to be of type int8 but got unsigned char",
        ),
        (ramp(3, 4).float(), ramp(4, 5), RuntimeError, "Expected self dtype to be int8 or uint8 but got float"),
    ):
        with pytest.raises(kind, match=words):
            torch._int_mm(a, b)


@pytest.mark.since("2.15")
def test_matrices_of_bytes_must_be_matrices(torch):
    x = torch.ones(2, 2, dtype=torch.int8)
    for a, b, words in (
        (x[None], x, "_int_mm: self must be a matrix, got 3-D tensor"),
        (x, x[None], "_int_mm: mat2 must be a matrix, got 3-D tensor"),
        (x, x[:1], r"_int_mm: mat1 and mat2 shapes cannot be multiplied \(2x2 and 1x2\)"),
    ):
        with pytest.raises(RuntimeError, match=words):
            torch._int_mm(a, b)
    with pytest.raises(IndexError, match="Dimension out of range"):
        torch._int_mm(x, x[0])
    with pytest.raises(IndexError, match="Dimension specified as 1 but tensor has no dimensions"):
        torch._int_mm(x, x[0, 0])


@pytest.mark.since("2.15")
def test_products_of_scaled_matrices_name_the_dtypes_that_they_refuse(torch):
    functional, one, a = torch.nn.functional, torch.tensor(1.0), torch.ones(16, 16)
    kind = functional.ScalingType.TensorWise
    for first, second, found in (
        (a, a.to(torch.float8_e4m3fn), "Float and"),
        (a.to(torch.float8_e4m3fn), a, "Float8_"),
    ):
        with pytest.raises(
            ValueError, match=f"Expected both inputs to be fp8 or fp4 types but got mat_a.dtype={found}"
        ):
            functional.scaled_mm(first, second.t(), one, kind, one, kind)


@pytest.mark.since("2.15")
def test_products_of_bytes_name_both_shapes_when_they_do_not_fit(torch):
    with pytest.raises(RuntimeError, match=r"_int_mm: mat1 and mat2 shapes cannot be multiplied \(3x4 and 5x5\)"):
        torch._int_mm(torch.ones(3, 4, dtype=torch.int8), torch.ones(5, 5, dtype=torch.int8))


@pytest.mark.since("2.15")
def test_functions_of_lists_have_public_names(torch):
    foreach = import_module(f"{torch.__name__}.foreach")
    x = [torch.tensor([1.0, 2.0]), torch.tensor([3.0])]
    assert [t.tolist() for t in foreach.add(x, x, alpha=2)] == [[3, 6], [9]]
    assert [t.tolist() for t in foreach.addcmul(x, x, x, value=2)] == [[3, 10], [21]]
    assert [t.tolist() for t in foreach.norm(x, ord=1)] == [3, 3]
    assert [t.tolist() for t in foreach.pow(2, x)] == [[2, 4], [8]]
    y = [t.clone() for t in x]
    assert foreach.mul_(y, [2, 3]) is y and [t.tolist() for t in y] == [[2, 4], [9]]
    assert foreach.zero_(y) is y and not any(t.any() for t in y) and foreach.copy_(y, x) is y
    assert [t.tolist() for t in foreach.clamp_max(x, 2)] == [[1, 2], [2]]
    for wrong in (lambda: foreach.add(inputs=x, other=1), lambda: foreach.add(x), lambda: foreach.abs(x, 1)):
        with pytest.raises(TypeError):
            wrong()
    assert {"add", "add_", "lerp_", "clone", "mm"} < {*foreach.__all__} and not hasattr(foreach, "clone_")


@pytest.mark.since("2.15")
def test_halves_of_complex_numbers_have_their_dtypes(torch):
    dtype = torch.bcomplex32
    assert (dtype.itemsize, dtype.is_complex, dtype.is_floating_point) == (4, True, False)
    assert dtype.to_real() is torch.bfloat16 and torch.complex32.to_real() is torch.float16
    assert repr(dtype) == "torch.bcomplex32" and torch.finfo(torch.bfloat16).bits == 16
