"""What backward and grad take: tensors, gradients, inputs, and their options; and what they refuse."""

import subprocess
import sys

import pytest

from tests.waiting import LIMIT

ONE_ELEMENT = "grad can be implicitly created only for scalar outputs"


def leaf(torch, *values):
    return torch.tensor(list(values), requires_grad=True)


def test_several_tensors_are_differentiated_with_a_gradient_each(torch):
    a = leaf(torch, 1.0, 2.0)
    torch.autograd.backward([a + 2, a * 3], [torch.ones(2), torch.tensor([10.0, 100.0])])
    assert a.grad.tolist() == [31.0, 301.0]
    torch.autograd.backward(((a * 2).sum(), (a * 5).sum()))
    assert a.grad.tolist() == [38.0, 308.0]


def test_the_same_tensor_may_be_a_root_twice_and_a_leaf_may_be_a_root(torch):
    a = leaf(torch, 1.0, 2.0)
    b = a * 2
    torch.autograd.backward([b, b, a], [torch.ones(2)] * 3, retain_graph=True)
    assert a.grad.tolist() == [5.0, 5.0]
    assert torch.autograd.grad([a.sum(), b.sum()], [b, a])[1].tolist() == [3.0, 3.0]


def test_an_empty_list_of_roots_computes_nothing(torch):
    torch.autograd.backward([])
    a = leaf(torch, 1.0)
    with pytest.raises(RuntimeError, match="at index 0 appears to not have been used in the graph"):
        torch.autograd.grad([], a)


@pytest.mark.parametrize("wrap", [tuple, list, iter, set])
def test_any_iterable_of_tensors_will_do(torch, wrap):
    a = leaf(torch, 1.0)
    torch.autograd.backward(wrap([(a * 3).sum()]))
    assert torch.autograd.grad(wrap([(a * 4).sum()]), a)[0].tolist() == [4.0]
    torch.autograd.backward((a * 5).sum(), inputs=wrap([a]))
    assert a.grad.tolist() == [8.0]


def test_gradients_of_inputs_in_a_dict_come_in_a_dict(torch):
    a, b = leaf(torch, 1.0), leaf(torch, 2.0)
    found = torch.autograd.grad((a * b).sum(), {"a": a, "b": b})
    assert {name: g.tolist() for name, g in found.items()} == {"a": [2.0], "b": [1.0]}
    (a * b).sum().backward(inputs={"a": a})
    assert a.grad.tolist() == [2.0] and b.grad is None


def test_grad_returns_a_tuple_in_the_order_of_the_inputs_even_for_one(torch):
    a, b = leaf(torch, 2.0), leaf(torch, 3.0)
    y = (a * b).sum()
    alone = torch.autograd.grad(y, a, retain_graph=True)
    assert isinstance(alone, tuple) and len(alone) == 1
    assert [g.tolist() for g in torch.autograd.grad(y, [b, a, b])] == [[2.0], [3.0], [2.0]]
    assert a.grad is None and b.grad is None


def test_gradients_given_without_their_tensors_are_passed_over_and_missing_ones_refused(torch):
    a = leaf(torch, 1.0, 2.0)
    torch.autograd.backward(a * 2, [torch.ones(2), None])
    assert a.grad.tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError, match="got 2 tensors and 1 gradients"):
        torch.autograd.backward([a * 2, a * 3], [torch.ones(2)])
    with pytest.raises(RuntimeError, match="got 2 tensors and 1 gradients"):
        torch.autograd.grad([a * 2, a * 3], a, torch.ones(2))


def test_none_stands_for_one_where_the_output_has_one_element(torch):
    a = leaf(torch, 1.0, 2.0)
    for root in ((a * 2).sum(), (a * 2)[:1], (a * 2)[:1].reshape(1, 1, 1)):
        a.grad = None
        root.backward()
        assert a.grad[0].item() == 2.0
    torch.autograd.backward([(a * 2).sum(), a * 3], [None, torch.ones(2)])
    assert a.grad.tolist() == [7.0, 5.0]


@pytest.mark.parametrize(
    "call",
    [
        lambda torch, y: y.backward(),
        lambda torch, y: torch.autograd.backward([y]),
        lambda torch, y: torch.autograd.backward([y.sum(), y], [None, None]),
        lambda torch, y: torch.autograd.grad(y, y),
    ],
)
def test_none_is_refused_for_an_output_of_several_elements(torch, call):
    with pytest.raises(RuntimeError, match=ONE_ELEMENT):
        call(torch, leaf(torch, 1.0, 2.0) * 2)


def test_none_is_refused_for_a_complex_output(torch):
    a = leaf(torch, 1.0 + 2.0j)
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for real scalar outputs but got"):
        (a * 2).sum().backward()
    (a * 2).sum().backward(torch.tensor(1.0 + 0.0j))
    assert a.grad.tolist() == [2.0 + 0.0j]


@pytest.mark.parametrize(
    ("shape", "words"), [((3,), r"\[3\]"), ((), r"\[\]"), ((2, 1), r"\[2, 1\]"), ((1, 2), r"\[1, 2\]")]
)
def test_a_gradient_of_another_shape_is_refused_though_it_would_broadcast(torch, shape, words):
    y = leaf(torch, 1.0, 2.0) * 2
    message = rf"Mismatch in shape: grad_output\[0\] has a shape of torch.Size\({words}\) and output\[0\] has a shape"
    with pytest.raises(RuntimeError, match=message):
        y.backward(torch.ones(shape))


def test_a_gradient_of_another_real_type_is_converted(torch):
    a = leaf(torch, 1.0, 2.0)
    for dtype in (torch.float64, torch.int64, torch.bool, torch.float16):
        seen = []
        y = a * 2
        y.register_hook(lambda g, seen=seen: seen.append(g.dtype))
        y.backward(torch.ones(2, dtype=dtype))
        assert seen == [torch.float32]
    assert a.grad.tolist() == [8.0, 8.0] and a.grad.dtype is torch.float32


def test_complex_and_real_do_not_stand_for_one_another(torch):
    with pytest.raises(RuntimeError, match="For complex Tensors, both grad_output and output are required to have the"):
        (leaf(torch, 1.0) * 2).backward(torch.ones(1, dtype=torch.complex64))
    with pytest.raises(RuntimeError, match="For complex Tensors, both grad_output and output are required to have the"):
        (leaf(torch, 1.0j) * 2).backward(torch.ones(1))


@pytest.mark.parametrize(("gradient", "words"), [(2.0, "not iterable"), ([1.0, 2.0], "got float"), ("x", "got str")])
def test_a_gradient_that_is_no_tensor_is_a_type_error(torch, gradient, words):
    with pytest.raises(TypeError, match=words):
        (leaf(torch, 1.0, 2.0) * 2).backward(gradient)


@pytest.mark.parametrize(
    "call",
    [
        lambda torch, a, y: y.backward(),
        lambda torch, a, y: torch.autograd.backward([y], [None]),
        lambda torch, a, y: torch.autograd.grad(y, a),
    ],
)
def test_a_root_must_require_grad(torch, call):
    a = torch.tensor([1.0, 2.0])
    with pytest.raises(RuntimeError, match="element 0 of tensors does not require grad and does not have a grad_fn"):
        call(torch, a, a.sum())


def test_the_message_counts_the_roots(torch):
    a, b = leaf(torch, 1.0), torch.ones(1)
    with pytest.raises(RuntimeError, match="element 1 of tensors does not require grad"):
        torch.autograd.grad([a.sum(), b.sum()], a)


def test_an_input_of_grad_must_require_grad(torch):
    a, b = leaf(torch, 1.0), torch.ones(1)
    for inputs in (b, [a, b]):
        with pytest.raises(RuntimeError, match="One of the differentiated Tensors does not require grad"):
            torch.autograd.grad(a.sum(), inputs)


def test_inputs_must_be_there_and_be_tensors(torch):
    a = leaf(torch, 1.0)
    y = (a * 2).sum()
    for empty in ([], ()):
        with pytest.raises(RuntimeError, match=r"`inputs` argument to `grad\(\)` cannot be empty"):
            torch.autograd.grad(y, empty)
        with pytest.raises(RuntimeError, match=r"`inputs` argument to `backward\(\)` cannot be empty"):
            y.backward(inputs=empty)
    for wrong, name in ((None, "NoneType"), (3, "int"), ([a], "list"), (y.grad_fn, type(y.grad_fn).__name__)):
        words = f"all inputs have to be Tensors or GradientEdges, but got {name}"
        with pytest.raises(RuntimeError, match=words):
            torch.autograd.grad(y, [a, wrong])
        with pytest.raises(RuntimeError, match=words):
            y.backward(inputs=[a, wrong])
    for wrong in (None, 3):
        with pytest.raises(TypeError, match="not iterable"):
            torch.autograd.grad(y, wrong)


def test_roots_must_be_tensors(torch):
    a = leaf(torch, 1.0)
    for wrong in (None, 3.0):
        with pytest.raises(TypeError, match="not iterable"):
            torch.autograd.backward(wrong)
        with pytest.raises(AssertionError, match="Expected output to be a torch.Tensor"):
            torch.autograd.grad([wrong], a)


def test_an_input_that_was_not_used_is_an_error_unless_allowed(torch):
    a, unused = leaf(torch, 1.0, 2.0), leaf(torch, 1.0)
    y = (a * 2).sum()
    for allow in (None, False):
        with pytest.raises(RuntimeError, match="at index 1 appears to not have been used in the graph. Set allow_unus"):
            torch.autograd.grad(y, [a, unused], retain_graph=True, allow_unused=allow)
    found = torch.autograd.grad(y, [a, unused], allow_unused=True)
    assert found[0].tolist() == [2.0, 2.0] and found[1] is None


def test_materialize_grads_gives_zeros_for_what_was_not_used(torch):
    a, unused, z = leaf(torch, 1.0, 2.0), leaf(torch, 1.0, 1.0, 1.0), leaf(torch, 1.0j)
    y = (a * 2).sum()
    for allow in (None, True):
        found = torch.autograd.grad(y, [unused, z], retain_graph=True, materialize_grads=True, allow_unused=allow)
        assert found[0].tolist() == [0.0] * 3 and found[1].dtype is torch.complex64
        assert not found[0].requires_grad
    (found,) = torch.autograd.grad(y, unused, create_graph=True, materialize_grads=True)
    assert found.requires_grad
    with pytest.raises(ValueError, match="Expected allow_unused to be True or not passed when materialize_grads=True"):
        torch.autograd.grad(y, unused, materialize_grads=True, allow_unused=False)


def test_the_tensor_that_follows_the_roots_is_unused(torch):
    a = leaf(torch, 1.0)
    b = a * 2
    assert torch.autograd.grad(a.sum(), b, allow_unused=True) == (None,)


def test_backward_with_inputs_fills_these_and_leaves_the_others(torch):
    a, b, c = leaf(torch, 1.0, 2.0), leaf(torch, 3.0, 4.0), leaf(torch, 5.0)
    product = a * b
    y = product.sum()
    y.backward(inputs=a, retain_graph=True)
    assert a.grad.tolist() == [3.0, 4.0] and b.grad is None
    y.backward(inputs=[a, b, a], retain_graph=True)
    assert a.grad.tolist() == [6.0, 8.0] and b.grad.tolist() == [1.0, 2.0]
    y.backward(inputs=[c, product * 2], retain_graph=True)  # not in the graph: nothing happens
    assert c.grad is None and a.grad.tolist() == [6.0, 8.0]


def test_backward_with_a_non_leaf_among_the_inputs_retains_its_gradient_and_stops_there(torch):
    a = leaf(torch, 1.0, 2.0)
    b = a * 2
    y = (b * 3).sum()
    y.backward(inputs=[b], retain_graph=True)
    assert b.grad.tolist() == [3.0, 3.0] and b.retains_grad and a.grad is None
    y.backward(inputs=[b, a], retain_graph=True)
    assert b.grad.tolist() == [6.0, 6.0] and a.grad.tolist() == [6.0, 6.0]
    y.backward()
    assert b.grad.tolist() == [9.0, 9.0]


def test_backward_refuses_inputs_that_do_not_require_grad(torch):
    with pytest.raises(RuntimeError, match="can't retain_grad on Tensor that has requires_grad=False"):
        leaf(torch, 1.0).sum().backward(inputs=[torch.ones(1)])


def test_retain_graph_follows_create_graph_unless_it_is_given(torch):
    a = leaf(torch, 1.0, 2.0)
    y = (a * a).sum()
    torch.autograd.grad(y, a, create_graph=True)
    torch.autograd.grad(y, a, create_graph=True, retain_graph=False)
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        torch.autograd.grad(y, a)


def test_backward_with_create_graph_warns_of_the_cycle_it_makes_once(torch):
    program = (
        "import warnings, {0} as torch\n"
        "with warnings.catch_warnings(record=True) as seen:\n"
        "    warnings.simplefilter('always')\n"
        "    for _ in range(2):\n"
        "        a = torch.ones(1, requires_grad=True)\n"
        "        (a * a).sum().backward(create_graph=True)\n"
        "        a.grad = None\n"
        "print([str(w.message)[:44] for w in seen])\n"
    )
    command = [sys.executable, "-c", program.format(torch.__name__)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    assert found.stdout == "['Using backward() with create_graph=True will']\n", found.stderr


def test_old_names_of_arguments_warn(torch):
    a = leaf(torch, 1.0, 2.0)
    with pytest.warns(FutureWarning, match="`grad_variables` is deprecated. Use `grad_tensors` instead"):
        torch.autograd.backward(a * 2, grad_variables=torch.ones(2))
    assert a.grad.tolist() == [2.0, 2.0]
    with pytest.warns(FutureWarning), pytest.raises(RuntimeError, match="Please only use `grad_tensors`"):
        torch.autograd.backward(a * 2, torch.ones(2), grad_variables=torch.ones(2))
    with pytest.warns(FutureWarning, match="only_inputs argument is deprecated"):
        assert torch.autograd.grad(a.sum(), a, only_inputs=False)[0].tolist() == [1.0, 1.0]


def test_backward_works_in_every_grad_mode(torch):
    a = torch.tensor(3.0, requires_grad=True)
    y = a * a
    with torch.no_grad():
        y.backward(retain_graph=True)
    with torch.inference_mode():
        (found,) = torch.autograd.grad(y, a, retain_graph=True)
    assert a.grad.item() == found.item() == 6.0
    with torch.no_grad():
        (found,) = torch.autograd.grad(y, a, create_graph=True)
    assert found.requires_grad


# --- is_grads_batched ---------------------------------------------------------------------------------------------


def test_batched_gradients_give_the_rows_of_a_jacobian(torch):
    a, unused = leaf(torch, 1.0, 2.0), leaf(torch, 1.0)
    y = a * a
    found, none = torch.autograd.grad(
        y, [a, unused], torch.eye(2), is_grads_batched=True, retain_graph=True, allow_unused=True
    )
    assert found.tolist() == [[2.0, 0.0], [0.0, 4.0]] and none is None
    _, zeros = torch.autograd.grad(
        y, [a, unused], [torch.eye(2)], is_grads_batched=True, retain_graph=True, materialize_grads=True
    )
    assert zeros.tolist() == [0.0]  # of the input's own shape
    with pytest.raises(RuntimeError, match="at index 1 appears to not have been used"):
        torch.autograd.grad(y, [a, unused], torch.eye(2), is_grads_batched=True, retain_graph=True)
    assert (
        torch.autograd.grad([y, y.sum()], a, [torch.ones(3, 2), torch.ones(3)], is_grads_batched=True)[0].tolist()
        == [[4.0, 8.0]] * 3
    )


def test_batched_gradients_can_be_differentiated_again(torch):
    a = leaf(torch, 1.0, 2.0)
    (rows,) = torch.autograd.grad(a * a * a, a, torch.eye(2), is_grads_batched=True, create_graph=True)
    assert torch.autograd.grad(rows.sum(), a)[0].tolist() == [6.0, 12.0]


@pytest.mark.parametrize(
    ("vectors", "error", "words"),
    [
        ((2,), RuntimeError, r"If `is_grads_batched=True`, we interpret the first dimension of each grad_output as"),
        ((3, 3), RuntimeError, "a mismatch was detected"),
        ((0, 2), IndexError, "index 0 is out of bounds"),
        (None, RuntimeError, ONE_ELEMENT),
    ],
)
def test_batched_gradients_that_do_not_fit_are_refused(torch, vectors, error, words):
    a = leaf(torch, 1.0, 2.0)
    with pytest.raises(error, match=words):
        torch.autograd.grad(a * a, a, None if vectors is None else torch.ones(vectors), is_grads_batched=True)


def test_batches_must_be_of_one_size(torch):
    a = leaf(torch, 1.0, 2.0)
    with pytest.raises(ValueError, match="Expected all tensors to have the same size in the mapped dimension"):
        torch.autograd.grad([a * 2, a * 3], a, [torch.ones(2, 2), torch.ones(3, 2)], is_grads_batched=True)
