"""Floats of 8 bits: they are stored, converted and moved about. Expected numbers are PyTorch's."""

from __future__ import annotations

import io

import pytest

import gradloom as gl

inf, nan = float("inf"), float("nan")
GIVEN = [0.1, 1.5, 300.0, -500.0, nan, inf]
ROUNDED = {
    gl.float8_e4m3fn: [0.1015625, 1.5, 288.0, -448.0, nan, 448.0],
    gl.float8_e5m2: [0.09375, 1.5, 320.0, -512.0, nan, inf],
    gl.float8_e4m3fnuz: [0.1015625, 1.5, nan, nan, nan, nan],
    gl.float8_e5m2fnuz: [0.09375, 1.5, 320.0, -512.0, nan, nan],
    gl.float8_e8m0fnu: [0.125, 2.0, 256.0, 512.0, nan, nan],
}


@pytest.mark.parametrize(("dtype", "expected"), ROUNDED.items(), ids=str)
def test_conversion(dtype, expected):
    x = gl.tensor(GIVEN)
    for found in (x.to(dtype), x.double().to(dtype), gl.tensor(GIVEN, dtype=dtype), gl.zeros(6, dtype=dtype).copy_(x)):
        assert found.dtype is dtype and found.element_size() == 1
        assert gl.equal(found.float().nan_to_num(7, 8, 9), gl.tensor(expected).nan_to_num(7, 8, 9))
    assert x.to(dtype)[1].item() == expected[1] and x.to(dtype)[:2].tolist() == expected[:2]


@pytest.mark.parametrize("dtype", ROUNDED, ids=str)
def test_moving_about(dtype):
    x = gl.tensor([1.0, 2.0, 4.0], dtype=dtype)
    assert gl.cat([x, x]).float().tolist() == [1.0, 2.0, 4.0] * 2
    assert x[[2, 0]].float().tolist() == [4.0, 1.0] and x.clone().fill_(2.0).float().sum() == 6
    assert x.view(gl.uint8).view(dtype).float().tolist() == x.tolist()
    assert gl.frombuffer(bytearray(x.view(gl.uint8).tolist()), dtype=dtype).tolist() == x.tolist()
    with pytest.raises(TypeError, match=f"unsupported ScalarType {str(dtype)[6:].capitalize()}"):
        x.numpy()


@pytest.mark.parametrize(
    ("dtype", "numbers"),
    [
        (gl.float8_e4m3fn, "eps=0.125, smallest_normal=0.015625, tiny=0.015625"),
        (gl.float8_e5m2, "eps=0.25, smallest_normal=6.10352e-05, tiny=6.10352e-05"),
        (gl.float8_e8m0fnu, "eps=1, smallest_normal=5.87747e-39, tiny=5.87747e-39"),
    ],
    ids=str,
)
def test_finfo(dtype, numbers):
    assert numbers in repr(gl.finfo(dtype)) and "resolution=1," in repr(gl.finfo(dtype))


def test_numbers_that_do_not_fit_are_refused():
    for dtype, name in ((gl.float8_e4m3fn, "Float8_e4m3fn"), (gl.float8_e8m0fnu, "Float8_e8m0fnu")):
        with pytest.raises(RuntimeError, match=f"cannot be converted to type c10::{name} without overflow"):
            gl.full((2,), 1e39, dtype=dtype)
    assert gl.full((2,), inf, dtype=gl.float8_e5m2)[0].item() == inf


def test_there_is_no_promotion():
    x = gl.ones(2).to(gl.float8_e5m2)
    words = "Promotion for Float8 Types is not supported, attempted to promote"
    for call in (lambda: x + gl.ones(2), lambda: gl.promote_types(gl.int32, x.dtype), lambda: x * gl.ones(2).cfloat()):
        with pytest.raises(RuntimeError, match=words):
            call()


def test_arithmetic_is_refused():
    x = gl.ones(2).to(gl.float8_e5m2)
    refused = {
        "add_stub": lambda: x + x,
        "sum_cpu": lambda: x.sum(),
        "mul_cpu_reduced_float": lambda: x * 2,
        "div_cpu": lambda: x / x,
        "exp_vml_cpu": lambda: x.exp_(),
        "arange_cpu": lambda: gl.arange(3, dtype=x.dtype),
        "cumsum_out_cpu": lambda: gl.ones(2).cumsum(0, dtype=x.dtype),
        "check_uniform_bounds": lambda: gl.rand(2, dtype=x.dtype),
    }
    for words, call in refused.items():
        with pytest.raises(NotImplementedError, match=f"\"{words}\" not implemented for 'Float8_e5m2'"):
            call()
    with pytest.raises(RuntimeError, match="must match the size"):  # shapes come first
        x + gl.ones(3).to(x.dtype)
    assert x.tolist() == [1.0, 1.0]
    assert (gl.ones(2) + 1).tolist() == [2.0, 2.0]


def test_what_operators_of_libraries_call_is_refused_and_profiled():
    def double(x: gl.Tensor) -> gl.Tensor:
        return x + x

    double.__annotations__ = {"x": gl.Tensor, "return": gl.Tensor}
    operator = gl.library.custom_op("float8_lib::double", double, mutates_args=())
    x = gl.ones(2)
    with pytest.raises(NotImplementedError, match="add_stub"):
        operator(x.to(gl.float8_e5m2))
    with gl.profiler.profile() as profile:
        operator(x)
    assert [event.name for event in profile.events()] == ["float8_lib::double", "aten::add"]


def test_products_are_rounded_once():
    x = gl.tensor([1.125, 300.0]).to(gl.float8_e4m3fn)
    assert (x * x).tolist() == [1.25, 448.0]  # 1.265625, and beyond the largest number
    assert (x[None] @ x[:, None]).item() == 448.0
    leaf = x.clone().requires_grad_()
    assert (leaf * x).grad_fn.name() == "MulBackward0"


def test_gradients_pass_through_the_conversion():
    x = gl.tensor([0.1, 1.0], requires_grad=True)
    (x.to(gl.float8_e4m3fn).float() * gl.tensor([2.0, 3.0])).sum().backward()
    assert x.grad.tolist() == [2.0, 3.0]


def test_files():
    file = io.BytesIO()
    x = gl.tensor([1.0, -3.0]).to(gl.float8_e4m3fn)
    gl.save({"x": x}, file)
    file.seek(0)
    again = gl.load(file)["x"]
    assert again.dtype is x.dtype and again.tolist() == [1.0, -3.0]
