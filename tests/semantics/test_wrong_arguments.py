"""Functions that refuse an argument of a wrong type do so by PyTorch's class of error, and take what PyTorch takes."""

import pytest

TAKEN = """
zeros(1, 0).expand(4, 0).fill_(3) ; zeros(1, 0).expand(4, 0).add_(3) ; zeros(1, 0).expand(4, 0).zero_()
zeros(1, 0).expand(4, 0).copy_(zeros(4, 0)) ; zeros(1, 0).expand(4, 0).index_fill_(0, tensor([0]), 1.0)
cat([zeros(0), zeros(0)], 1) ; cat([zeros(0), zeros(0)], -2) ; zeros(1, 0)[tensor([1])]
tensordot(ones(1, 2, dtype=int32), ones(3, 2, dtype=int32), ([0, 1], [0, 1])) ; polygamma(2, tensor([-1e5 + 0.5]))
broadcast_shapes((2,), None, (3, 2)) ; F.pad(ones(2), [tensor(1), 1]) ; windows.hann(True)
F.adaptive_avg_pool2d(ones(1, 4, 4), (None, 2))
ones(2).float(memory_format=preserve_format) ; nonzero(ones(2), as_tuple=True)
F.adaptive_max_pool2d(ones(0, 4, 6), 1) ; F.fractional_max_pool2d(ones(0, 4, 6), 2, output_size=2)
"""
REFUSED = """
F.pad(['a'], (1, 1)) : TypeError ; F.pad(ones(2), None) : TypeError ; F.pad(3, (1, 1), 'reflect') : TypeError
F.dropout1d([1.0], 2) : ValueError ; F.dropout1d([1.0], 'a') : TypeError ; F.embedding(tensor([0]), 2**31) : TypeError
ones(2).is_set_to(0) : TypeError ; ones(2).type(3) : TypeError ; add(2**31, (ones(2),)) : TypeError
mul(1, {}) : TypeError ; einsum(-1, ones(2)) : TypeError ; tensordot(ones(2, 2), ones(2, 2), 'a') : RuntimeError
unravel_index(tensor([1]), 2.5) : TypeError ; unravel_index(tensor([1]), None) : TypeError
flip(tensor(1.0), (0, 1)) : IndexError ; flip(tensor(1.0), (0, 0)) : RuntimeError
F.pad(ones(4), 'a') : TypeError ; F.pad(ones(4), ['a']) : TypeError ; F.pad(ones(4), ones(2)) : TypeError
F.pad(ones(4), (1, 1), None) : TypeError ; F.pad(ones(4), (1,), 'constant', 'a') : TypeError
F.pad(ones(4), (1, 1), 'reflect', 'a') : TypeError ; F.pad(ones(4), (1, 1.5)) : TypeError
F.pad(ones(4), (1, 1), 'constant', 1j) : TypeError ; F.pad(ones(4), (1, 1), 'a') : NotImplementedError
F.unfold(ones(1, 1, 4, 4), [1]) : RuntimeError ; F.unfold(ones(1, 1, 4, 4), None) : TypeError
F.unfold(ones(1, 1, 4, 4), (1, 2, 3)) : RuntimeError ; F.unfold(ones(1, 1, 4, 4), 1, 'a') : TypeError
F.fold(ones(1, 4, 9), [4], 2) : RuntimeError ; F.fold(ones(1, 4, 9), None, 2) : TypeError
F.mse_loss(ones(2), ones(2), reduction=[1]) : ValueError ; F.kl_div(ones(2), ones(2), reduction={}) : ValueError
F.huber_loss(ones(2), ones(2), reduction=[1]) : ValueError
F.soft_margin_loss(ones(2), ones(2), reduction=[1]) : ValueError
F.embedding_bag(tensor([0]), ones(2, 3), tensor([0]), mode=[1]) : ValueError
nonzero(ones(2), as_tuple=None) : TypeError
nonzero(ones(2), as_tuple=1) : TypeError ; broadcast_shapes(2.5) : RuntimeError
broadcast_shapes(ones(2)) : RuntimeError
broadcast_shapes({}) : RuntimeError ; broadcast_shapes(tensor(2)) : RuntimeError
F.adaptive_avg_pool2d(ones(1, 4, 4), None) : TypeError ; F.adaptive_avg_pool2d(ones(1, 4, 4), [1]) : RuntimeError
F.adaptive_max_pool3d(ones(1, 4, 4, 4), [1]) : RuntimeError ; F.adaptive_max_pool2d(ones(1, 4, 4), None) : TypeError
F.max_unpool1d(ones(1, 3), ones(1, 3).long(), 2, []) : IndexError
F.max_unpool2d(ones(2), ones(2).long(), 2) : IndexError
windows.hann(2.5) : TypeError ; windows.cosine(True) : TypeError
windows.hann(3, dtype=()) : ValueError
windows.gaussian(2.5) : TypeError ; windows.hann(3, dtype=ones(2, 2)) : ValueError
F.avg_pool1d(ones(1, 3), ()) : RuntimeError ; F.max_pool1d(ones(1, 3), 2, padding=()) : RuntimeError
F.batch_norm(ones(2, 3), None, ones(3), training=True) : ValueError
F.batch_norm(ones(1, 0), None, None, training=True) : ValueError
F.batch_norm(ones(1), None, None, training=True) : ValueError
F.instance_norm(ones(1, 1, 4), ones(1)) : ValueError
native_group_norm(ones(1, 2, 3), None, None, 1, -2, 3, 1, 0.0) : RuntimeError
native_group_norm(ones(1, 2, 3), ones(3), None, 1, 2, 3, 1, 0.0) : RuntimeError
native_group_norm(ones(1, 2, 3), None, None, 1, 2, 2, 1, 0.0) : RuntimeError
unique(tensor(1), dim=0) : IndexError ; unique_consecutive(tensor(1), dim=-1) : IndexError
ones(2).float(None) : TypeError ; ones(2).cfloat(preserve_format) : TypeError ; ones(2).cpu(None) : TypeError
ones(2).is_contiguous(3) : TypeError ; ones(2).to_dense(0) : TypeError ; ones(2).to_dense(ones(2)) : TypeError
cov(ones(2, 2), aweights=zeros(2)) : RuntimeError ; logspace(0, 1, 3, dtype=bool) : NotImplementedError
F.max_pool1d(ones(1, 3, dtype=int64), 2) : NotImplementedError
optim.SGD([{"params": {ones(1)}}], lr=1.0) : TypeError
"""
#: What an error must not show: attributes of the library's own and messages of Python's or NumPy's.
INTERNAL = ("_array", "ndarray", "has no attribute", "not iterable", "read-only", "not supported between")


def calls(table):
    return [call.strip() for line in table.strip().splitlines() for call in line.split(" ; ")]


def evaluate(call, torch):
    code = compile(call, "call", "eval")
    names = {name: getattr(torch, name) for name in code.co_names if hasattr(torch, name)}  # some are bound late
    eval(code, {**vars(torch), **names, "F": torch.nn.functional, "windows": torch.signal.windows})


@pytest.mark.parametrize("call", calls(TAKEN))
def test_unusual_arguments_are_taken(torch, call):
    evaluate(call, torch)


@pytest.mark.since("2.15")
def test_differences_of_bytes_are_not_implemented(torch):
    with pytest.raises(NotImplementedError, match=r"torch.gradient does not support uint8 input"):
        torch.gradient(torch.ones(3, dtype=torch.uint8))


@pytest.mark.parametrize("call", calls(REFUSED))
def test_wrong_arguments_raise_the_documented_class(torch, call):
    call, _, error = call.rpartition(" : ")
    with pytest.raises(Exception) as caught:
        evaluate(call, torch)
    assert type(caught.value).__name__ == error
    if torch.__name__ == "gradloom" and "dropout1d" not in call:
        assert not any(word in str(caught.value) for word in INTERNAL)


@pytest.mark.filterwarnings("ignore:This overload of")
@pytest.mark.parametrize(
    ("old", "plain"),
    [
        ("add(x, 2, y)", "add(x, y, alpha=2)"),
        ("add(x, tensor(2.0), y, out=zeros(2))", "add(x, y, alpha=2)"),
        ("x.clone().sub_(3, y)", "x - 3 * y"),
        ("addcmul(x, 2, y, y)", "x + 2 * y * y"),
        ("x.addcdiv(2, x, y)", "x + 2 * x / y"),
        ("addmv(2, x, 3, m, y)", "2 * x + 3 * m @ y"),
        ("addmv(2, x, m, y)", "2 * x + m @ y"),
        ("x.addmv(2, 3, m, y)", "2 * x + 3 * m @ y"),
        ("m.addr(2, x, y)", "2 * m + outer(x, y)"),
    ],
)
def test_deprecated_orders_of_positional_arguments(torch, old, plain):
    names = dict(vars(torch), x=torch.tensor([1.0, 2.0]), y=torch.tensor([3.0, 5.0]), m=torch.ones(2, 2))
    assert torch.equal(eval(old, names), eval(plain, names))


@pytest.mark.parametrize("call", ["add(x, 2, 'a')", "add(x, x, x, x)", "addcmul(x, 'a', x, x)", "x.add_(x, x)"])
def test_orders_that_no_overload_has(torch, call):
    with pytest.raises(TypeError, match="positional arguments? but"):
        eval(call, dict(vars(torch), x=torch.ones(2)))


def test_deprecated_orders_warn(torch):
    torch.set_warn_always(True)
    try:
        with pytest.warns(
            UserWarning, match="This overload of add is deprecated:\n\tadd\\(Tensor input, Number alpha"
        ) as found:
            torch.add(torch.ones(2), 2, torch.ones(2))
    finally:
        torch.set_warn_always(False)
    assert found[0].filename == __file__


@pytest.mark.parametrize(
    ("call", "better"),
    [
        ("x.lu()", "torch.linalg.lu_factor"),
        ("torch.lu(x)", "torch.linalg.lu_factor"),
        ("torch.triangular_solve(x, x)", "torch.linalg.solve_triangular"),
        ("torch.lu_solve(x, *torch.linalg.lu_factor(x))", "torch.linalg.lu_solve"),
        ("torch.chain_matmul(x, x)", "torch.linalg.multi_dot"),
        ("torch.cross(x, x)", "torch.linalg.cross"),
    ],
)
def test_operators_with_a_successor_in_linalg_are_deprecated(torch, call, better):
    torch.set_warn_always(True)
    try:
        with pytest.warns(UserWarning, match=f"(?s)deprecated.*{better}"):
            eval(call, {"torch": torch, "x": torch.eye(3)})
    finally:
        torch.set_warn_always(False)


def test_operators_that_pytorch_removed_are_deprecated(gradloom):
    x = gradloom.eye(3)
    for call, better in ((lambda: gradloom.qr(x), "torch.linalg.qr"), (x.cholesky, "torch.linalg.cholesky")):
        gradloom.set_warn_always(True)
        try:
            with pytest.warns(UserWarning, match=f"(?s)deprecated.*{better}"):
                call()
        finally:
            gradloom.set_warn_always(False)


@pytest.mark.parametrize("name", ["any", "bernoulli_", "to", "contiguous", "view", "argsort", "set_"])
def test_unbound_methods_need_a_tensor(torch, name):
    method = getattr(torch.Tensor, name)
    for keywords in {}, {"unknown": 1}:
        with pytest.raises(TypeError, match=rf"^unbound method TensorBase\.{name}\(\) needs an argument$"):
            method(**keywords)
    words = f"descriptor '{name}' for 'torch._C.TensorBase' objects doesn't apply to a 'int' object"
    with pytest.raises(TypeError, match=f"^{words}$"):
        method(3)


@pytest.mark.parametrize("value", [["a"], (1.5, 2), [None], [[1]], [True]])
def test_the_first_element_of_a_list_that_is_no_int_is_named(torch, value):
    x, kind = torch.ones(2), type(value[0]).__name__
    words = rf"argument '\w+' \(position {{}}\) must be tuple of ints, but found element of type {kind} at pos 0$"
    for position, call in (1, x.permute), (1, torch.zeros), (2, lambda v: torch.fft.ifftn(x, v)):
        with pytest.raises(TypeError, match=words.format(position)):
            call(value)


@pytest.mark.parametrize("other", ["x", None, [1.0]])
def test_result_type_takes_tensors_and_numbers_only(torch, other):
    with pytest.raises(
        TypeError, match=r"^result_type\(\) received an invalid combination of arguments - got \(Tensor, "
    ):
        torch.result_type(torch.ones(2), other)
