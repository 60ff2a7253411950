"""Anomaly mode: which forward call made the failing node, and which backward gave a NaN.

PyTorch tells the forward line in a warning beside the exception, gradloom in the exception's notes; `told` is all that.
"""

import gc
import threading
import warnings
import weakref

import pytest

from tests.waiting import LIMIT, Running, in_threads


@pytest.fixture(autouse=True)
def switched_off_again(torch):
    yield
    torch.autograd.set_detect_anomaly(False)


@pytest.fixture
def anomaly(torch):
    """detect_anomaly without its warning."""

    def enter(**options):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.autograd.detect_anomaly(**options)

    return enter


def told(run, kind=RuntimeError):
    """All that is said when `run` fails: the message, its notes, the warnings."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with pytest.raises(kind) as caught:
            run()
    said = [str(caught.value), *getattr(caught.value, "__notes__", ()), *(str(w.message) for w in warned)]
    return "\n".join(said)


def nan_of_square_root(torch):
    x = torch.zeros(2, requires_grad=True)
    return (x.sqrt() * 0).sum()  # THE FORWARD LINE


def test_a_nan_that_a_backward_returns_raises_with_the_forward_line(torch, anomaly):
    with anomaly():
        loss = nan_of_square_root(torch)
        text = told(loss.backward)
    assert "Function 'SqrtBackward0' returned nan values in its 0th output." in text
    assert "Error detected in SqrtBackward0" in text
    assert "Traceback of forward call that caused the error:" in text
    assert "THE FORWARD LINE" in text
    assert "in nan_of_square_root" in text


def test_the_number_of_the_output_with_the_nan_is_told(torch, anomaly):
    x = torch.ones(1, requires_grad=True)
    y = torch.full((1,), float("nan"), requires_grad=True)
    with anomaly():
        assert "returned nan values in its 0th output." in told((x * y).sum().backward)
        z = torch.ones(1, requires_grad=True)
        assert "returned nan values in its 1th output." in told((y.detach() * z).sum().backward)


def test_without_check_nan_a_nan_goes_through(torch, anomaly):
    x = torch.zeros(1, requires_grad=True)
    with anomaly(check_nan=False):
        assert not torch.is_anomaly_check_nan_enabled()
        (x.sqrt() * 0).sum().backward()
    assert x.grad.isnan().all()


def test_without_anomaly_mode_a_nan_goes_through(torch):
    x = torch.zeros(1, requires_grad=True)
    (x.sqrt() * 0).sum().backward()
    assert x.grad.isnan().all()


def test_infinities_are_no_anomaly(torch, anomaly):
    x = torch.zeros(1, requires_grad=True)
    with anomaly():
        x.sqrt().sum().backward()
    assert x.grad.isinf().all()


def test_a_nan_of_a_complex_gradient_raises(torch, anomaly):
    x = torch.tensor([complex(1, float("nan"))], requires_grad=True)
    with anomaly():
        assert "returned nan values" in told((x * x).real.sum().backward)


def test_a_nan_that_a_hook_makes_is_found_at_the_next_node(torch, anomaly):
    x = torch.ones(1, requires_grad=True)
    with anomaly():
        y = x * 2
        y.register_hook(lambda grad: grad * float("nan"))
        text = told((y + 1).sum().backward)
    assert "Function 'MulBackward0' returned nan values" in text


def test_a_node_made_before_the_mode_has_no_forward_line(torch, anomaly):
    loss = nan_of_square_root(torch)
    with anomaly():
        text = told(loss.backward)
    assert "Error detected in SqrtBackward0. No forward pass information available." in text
    assert "Enable detect anomaly during forward pass for more information." in text


class Failing:
    """Custom functions, made with the library under test."""

    @staticmethod
    def raising(torch):
        class Raises(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.clone()

            @staticmethod
            def backward(ctx, grad):
                raise ValueError("told by the user")

        return Raises

    @staticmethod
    def nan(torch):
        class ReturnsNan(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.clone()

            @staticmethod
            def backward(ctx, grad):
                return grad * float("nan")

        return ReturnsNan


def test_a_custom_function_is_watched_like_an_operator(torch, anomaly):
    x = torch.ones(2, requires_grad=True)
    with anomaly():
        y = Failing.nan(torch).apply(x)  # MADE HERE
        text = told(y.sum().backward)
    assert "Function 'ReturnsNanBackward' returned nan values in its 0th output." in text
    assert "Error detected in ReturnsNanBackward" in text
    assert "MADE HERE" in text


def test_an_exception_of_a_custom_function_arrives_as_it_is_with_the_forward_line(torch, anomaly):
    x = torch.ones(2, requires_grad=True)
    with anomaly():
        y = Failing.raising(torch).apply(x)  # MADE HERE
        text = told(y.sum().backward, ValueError)
    assert text.startswith("told by the user")
    assert "MADE HERE" in text


def test_a_node_of_a_backward_pass_tells_what_induced_it(torch, anomaly):
    with anomaly():
        x = torch.zeros(1, requires_grad=True)
        y = (x**1.5).sum()  # THE FIRST
        (first,) = torch.autograd.grad(y, x, create_graph=True)  # THE SECOND
        (second,) = torch.autograd.grad(first.sum(), x, create_graph=True)  # THE THIRD
        text = told((second * 0).sum().backward)
    assert "Error detected in PowBackward0" in text
    assert text.count("Previous calculation was induced by PowBackward0") in (2, 4)  # in warnings, in notes or in both
    assert "Traceback of forward call that induced the previous calculation:" in text
    # Error, then its parents, each with its own line.
    assert text.index("THE THIRD") < text.index("Previous calculation")
    assert text.rindex("Previous calculation") < text.rindex("THE FIRST")
    assert "THE SECOND" in text


def test_a_backward_pass_inside_another_tells_both(torch, anomaly):
    class Reentrant(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            with torch.enable_grad():
                x = torch.zeros(1, requires_grad=True)
                (x.sqrt() * 0).sum().backward()  # INSIDE
            return grad

    with anomaly():
        y = Reentrant.apply(torch.ones(1, requires_grad=True))  # OUTSIDE
        text = told(y.sum().backward)
    assert "Function 'SqrtBackward0' returned nan values" in text
    for said in (
        "Error detected in SqrtBackward0",
        "INSIDE",
        "OUTSIDE",
        "Error detected in ReentrantBackward",
        "Previous calculation was induced by ReentrantBackward",
    ):
        assert said in text


def test_contexts_nest_and_give_back_what_was_before(torch, anomaly):
    def now():
        return torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()

    assert now() == (False, True)
    with anomaly(check_nan=False):
        assert now() == (True, False)
        with torch.autograd.set_detect_anomaly(False):
            assert now() == (False, True)
            with anomaly():
                assert now() == (True, True)
            assert now() == (False, True)
        assert now() == (True, False)
    assert now() == (False, True)


def test_the_mode_ends_with_an_exception_too(torch, anomaly):
    with pytest.raises(KeyError), anomaly():
        raise KeyError
    assert not torch.is_anomaly_enabled()


def test_detect_anomaly_warns_and_is_not_on_before_it_is_entered(torch):
    with pytest.warns(UserWarning, match="Anomaly Detection has been enabled"):
        mode = torch.autograd.detect_anomaly()
    assert not torch.is_anomaly_enabled()
    with mode:
        assert torch.is_anomaly_enabled()
    assert not torch.is_anomaly_enabled()


def test_set_detect_anomaly_is_on_at_once_and_stays_on(torch):
    torch.autograd.set_detect_anomaly(True, check_nan=False)
    assert (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()) == (True, False)
    torch.autograd.set_detect_anomaly(False)
    assert (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()) == (False, True)


def test_set_anomaly_enabled_sets_both(torch):
    torch.set_anomaly_enabled(True, False)
    assert (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()) == (True, False)
    torch.set_anomaly_enabled(False)
    assert (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()) == (False, True)


def test_the_classes_live_in_anomaly_mode(torch):
    module = torch.autograd.anomaly_mode
    assert set(module.__all__) == {"detect_anomaly", "set_detect_anomaly"}
    assert module.detect_anomaly is torch.autograd.detect_anomaly
    assert module.set_detect_anomaly is torch.autograd.set_detect_anomaly


def test_the_mode_belongs_to_all_threads(torch, anomaly):
    running, entered, left = threading.Event(), threading.Event(), threading.Event()
    seen = []

    def look():
        seen.append(torch.is_anomaly_enabled())
        running.set()
        assert entered.wait(LIMIT)
        seen.append(torch.is_anomaly_enabled())
        running.set()
        assert left.wait(LIMIT)
        seen.append(torch.is_anomaly_enabled())

    older = Running(look)
    assert running.wait(LIMIT)
    running.clear()
    with anomaly():
        entered.set()
        assert running.wait(LIMIT)
        seen += in_threads(torch.is_anomaly_enabled)
    left.set()
    older.result()
    assert seen == [False, True, True, False]


def test_a_node_keeps_its_forward_stack_in_its_metadata(torch, anomaly):
    x = torch.ones(1, requires_grad=True)
    with anomaly():
        y = x * 2  # MADE HERE
    assert "MADE HERE" in "".join(y.grad_fn.metadata["traceback_"])
    assert "traceback_" not in (x * 2).grad_fn.metadata


def test_the_mode_keeps_no_graph_alive(torch, anomaly):
    gc.collect()
    gc.disable()
    try:
        with anomaly():
            x = torch.ones(2, requires_grad=True)
            y = (x * 2).exp()
            (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
            gone = []
            weakref.finalize(y, gone.append, "y")
            weakref.finalize(first, gone.append, "first")
            del y, first
            assert gone == ["y", "first"]
    finally:
        gc.enable()


def test_gradients_are_the_same_in_the_mode(torch, anomaly):
    def gradient():
        x = torch.tensor([0.5, -1.0, 2.0], requires_grad=True)
        (first,) = torch.autograd.grad((x.tanh() * x[1:].exp().sum()).sum(), x, create_graph=True)
        (first**2).sum().backward()
        return x.grad.tolist()

    expected = gradient()
    with anomaly():
        assert gradient() == expected


def test_a_block_knows_what_was_before(torch):
    with torch.autograd.set_detect_anomaly(True, check_nan=False) as nothing:
        inner = torch.autograd.set_detect_anomaly(False)
        assert nothing is None and (inner.prev, inner.prev_check_nan) == (True, False)
    assert torch.autograd.set_detect_anomaly(False).prev is False
