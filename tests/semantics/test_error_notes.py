"""What gradloom adds to an exception of a backward pass: the operator, its YAML entry, the user's lines."""

import gc
import inspect
import linecache
import re
import warnings
import weakref
from importlib import import_module

import pytest


@pytest.fixture
def anomaly(gradloom):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mode = gradloom.autograd.detect_anomaly(check_nan=False)
    with mode:
        yield


def failing(run, kind=RuntimeError):
    """The message of the exception that `run` raises, and its notes."""
    with pytest.raises(kind) as caught:
        run()
    return str(caught.value), "\n".join(caught.value.__notes__)


def line_of(text: str) -> str:
    """The line of this file that holds the (only) comment `text`."""
    lines = [i for i, line in enumerate(open(__file__), 1) if line.rstrip().endswith(f"# {text}")]
    assert len(lines) == 1, f"{text} marks one line"
    return f"{__file__}:{lines[0]}"


def yaml_line(note: str) -> str:
    """The line of YAML that a note refers to."""
    path, line = re.search(r"(\S+\.yaml):(\d+)", note).groups()
    return linecache.getline(path, int(line)).strip()


def freed(gradloom):
    x = gradloom.ones(2, requires_grad=True)
    y = x.exp()
    y.sum().backward()
    return y


def test_a_formula_that_fails_is_named_with_its_yaml_line(gradloom):
    message, notes = failing(freed(gradloom).sum().backward)
    assert message.startswith("Trying to backward through the graph a second time")
    assert "ExpBackward0, the backward of exp, in the formula of `self`: grad * result.conj()" in notes
    assert yaml_line(notes) == "self: grad * result.conj()"


def test_of_two_formulas_the_one_that_failed_is_named(gradloom, monkeypatch):
    def fails(*arguments):
        raise ZeroDivisionError("a helper's own")

    nodes = import_module("gradloom.generated.functions.elementwise")
    monkeypatch.setattr(nodes, "pow_backward_exponent", fails)
    x, y = (gradloom.ones(2, requires_grad=True) for _ in range(2))
    message, notes = failing((x**y).sum().backward, ZeroDivisionError)
    assert message == "a helper's own"
    assert "PowBackward1, the backward of pow.Tensor_Tensor, in the formula of `exponent`" in notes
    assert yaml_line(notes).startswith("exponent: pow_backward_exponent(")
    assert "set_detect_anomaly(True)" in notes, "how to learn the forward line"


def test_a_write_to_a_view_names_the_operator_that_wrote(gradloom):
    base = gradloom.ones(3, requires_grad=True) * 1
    base[:2].exp_()
    base.sum().backward(retain_graph=False)
    _, notes = failing(base.sum().backward)
    assert "CopySlices, which runs ExpBackward0, the backward of exp" in notes


YAML = """
- func: {name}(Tensor self) -> Tensor
  variants: function, method
  autogen: {name}_
  kernel: self * self * self
- name: {name}(Tensor self) -> Tensor
  self: 3 * grad * self * self
"""


def test_an_operator_defined_in_memory_is_named_and_not_taken_for_the_users_code(gradloom):
    with gradloom.ops.define(YAML.format(name="cube_of_notes"), namespace="notes"):
        with gradloom.autograd.set_detect_anomaly(True):
            x = gradloom.ones(2, requires_grad=True)
            y = gradloom.ops.notes.cube_of_notes(x)  # THE CUBE
            z = y * y
            y.cube_of_notes_()  # THE CUBE IN PLACE
        y.sum().backward(retain_graph=True)
        message, _ = failing(z.sum().backward)
        assert f"cube_of_notes_ wrote to it at {line_of('THE CUBE IN PLACE')}" in message
        cube = gradloom.ops.notes.cube_of_notes(x)
        cube.sum().backward()
        _, notes = failing(cube.sum().backward)
    assert "CubeOfNotesBackward0, the backward of cube_of_notes, in the formula of `self`: 3 * grad * self" in notes


BREAKS = """
    - func: breaks(Tensor self) -> Tensor
      kernel: xp.sin(self)
"""
BREAKS_DERIVATIVE = """
    - name: breaks(Tensor self) -> Tensor
      self: grad.reshape([7, 7])
      result: self_t.reshape([8, 8])
"""


@pytest.mark.parametrize(
    "texts, lines",
    [
        ((BREAKS + BREAKS_DERIVATIVE,), ("<define>:6", "<define>:7")),
        ((BREAKS, BREAKS_DERIVATIVE), ("<define, derivatives>:3", "<define, derivatives>:4")),
    ],
)
def test_a_formula_that_is_defined_in_memory_is_named_with_its_line_of_the_text(gradloom, texts, lines):
    forward_ad = gradloom.autograd.forward_ad
    with gradloom.ops.define(*texts, namespace="notes"):
        x = gradloom.ones(2, requires_grad=True)
        y = gradloom.ops.notes.breaks(x)
        _, notes = failing(y.sum().backward)
        assert f"in the formula of `self`: grad.reshape([7, 7])\n  {lines[0]}\n" in notes

        def forward():
            with forward_ad.dual_level():
                gradloom.ops.notes.breaks(forward_ad.make_dual(x.detach(), x.detach()))

        _, notes = failing(forward)
        assert notes.endswith(f"in the forward-mode formula of `result`: self_t.reshape([8, 8])\n  {lines[1]}")
        later = gradloom.ops.notes.breaks(x)
    _, notes = failing(later.sum().backward)
    assert "BreaksBackward0, the backward of breaks" in notes and lines[0].partition(":")[0] in notes


def test_a_derivative_that_replaces_gradlooms_in_memory_is_named_with_its_line(gradloom):
    with gradloom.ops.define("- name: sqrt(Tensor self) -> Tensor\n  override: true\n  self: grad.reshape([7, 7])"):
        y = gradloom.ones(2, requires_grad=True).sqrt()
        _, notes = failing(y.sum().backward)
    assert "SqrtBackward0, the backward of sqrt" in notes and "\n  <define>:3\n" in notes


def test_the_entry_of_a_package_is_found_in_its_own_file(gradloom, tmp_path):
    (tmp_path / "generated" / "functions").mkdir(parents=True)
    (tmp_path / "derivatives.yaml").write_text("# == mine ==\n" + YAML.format(name="cube").split("* self\n", 1)[1])
    place = import_module("gradloom.diagnostics.error_notes").entry_place
    nodes = {"__file__": str(tmp_path / "generated" / "functions" / "mine.py")}
    assert place(nodes, "cube", "self") == f"{tmp_path / 'derivatives.yaml'}:3"
    assert place(nodes, "cube_") == f"{tmp_path / 'derivatives.yaml'}:2"
    assert place(nodes, "cube", "other") == f"{tmp_path / 'derivatives.yaml'}:2"
    assert place(nodes, "sphere") is None
    assert place({"__file__": str(tmp_path / "elsewhere" / "a" / "b" / "c" / "nodes.py")}, "cube") is None


def test_a_hook_that_fails_is_told_from_a_formula(gradloom):
    def hook(grad):
        raise KeyError("mine")

    y = gradloom.ones(2, requires_grad=True).exp()
    y.register_hook(hook)
    _, notes = failing(y.sum().backward, KeyError)
    assert notes == "This came from a hook of ExpBackward0, the backward of exp."


def test_a_custom_function_is_named_with_the_place_of_its_backward(gradloom):
    class Fails(gradloom.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod  # THE BACKWARD OF FAILS
        def backward(ctx, grad):
            raise ValueError("mine")

    _, notes = failing(Fails.apply(gradloom.ones(1, requires_grad=True)).sum().backward, ValueError)
    assert "FailsBackward, the backward of the custom function" in notes
    assert f"({line_of('THE BACKWARD OF FAILS')})" in notes


def test_a_callback_that_fails_gets_no_note(gradloom):
    def callback():
        raise ValueError("mine")

    x = gradloom.ones(1, requires_grad=True)
    queue = import_module("gradloom.core.engine").queue_callback
    x.register_hook(lambda grad: queue(callback))
    with pytest.raises(ValueError) as caught:
        (x * 1).sum().backward()
    assert not hasattr(caught.value, "__notes__")


def test_the_forward_line_is_in_the_exception_in_anomaly_mode(gradloom, anomaly):
    x = gradloom.ones(2, requires_grad=True)
    y = x.exp()  # THE EXPONENTIAL
    y.sum().backward()
    _, notes = failing(y.sum().backward)
    assert f"Error detected in ExpBackward0, made at {line_of('THE EXPONENTIAL')}, in " in notes


def test_the_forward_line_is_told_when_the_mode_ended_before_backward(gradloom):
    with gradloom.autograd.set_detect_anomaly(True):
        x = gradloom.ones(2, requires_grad=True)
        y = x.exp()  # THE EXPONENTIAL WITH THE MODE
    y.sum().backward()
    _, notes = failing(y.sum().backward)
    assert line_of("THE EXPONENTIAL WITH THE MODE") in notes


def test_the_line_in_a_users_module_is_told_not_one_of_the_library(gradloom, anomaly):
    class Net(gradloom.nn.Module):
        def forward(self, x):
            return gradloom.nn.functional.softplus(x)  # IN THE MODULE

    x = gradloom.ones(2, requires_grad=True)
    y = Net()(x)
    y.sum().backward()
    _, notes = failing(y.sum().backward)
    assert f"made at {line_of('IN THE MODULE')}" in notes
    assert "generated" not in notes.partition("Traceback of forward call")[2]


def test_every_note_stands_once(gradloom, anomaly):
    _, notes = failing(freed(gradloom).sum().backward)
    assert notes.count("This came from") == notes.count("Error detected in") == 1


def test_a_forward_formula_that_fails_is_named_with_its_yaml_line(gradloom, monkeypatch):
    def fails(*arguments):
        raise ZeroDivisionError("a helper's own")

    monkeypatch.setattr(import_module("gradloom.generated.variable_type.elementwise"), "sinc_backward", fails)
    forward_ad = import_module("gradloom.autograd.forward_ad")

    def run():
        with forward_ad.dual_level():
            gradloom.sinc(forward_ad.make_dual(gradloom.ones(2), gradloom.ones(2)))

    _, notes = failing(run, ZeroDivisionError)
    assert "sinc, in the forward-mode formula of `result`" in notes
    assert yaml_line(notes) == "result: auto_element_wise"


def test_exceptions_of_the_user_in_a_dual_level_get_no_note(gradloom):
    forward_ad = import_module("gradloom.autograd.forward_ad")
    with pytest.raises(ValueError) as caught, forward_ad.dual_level():
        raise ValueError
    assert not hasattr(caught.value, "__notes__")


# --- who wrote to a saved tensor ------------------------------------------------------------------


def test_without_anomaly_mode_the_message_names_node_and_field_and_says_how_to_learn_more(gradloom):
    x = gradloom.ones(2, requires_grad=True)
    y = x.exp()
    y.mul_(2)
    message, _ = failing(y.sum().backward)
    assert "is at version 1; expected version 0 instead" in message
    assert "ExpBackward0 saved it as `result`" in message
    assert "torch.autograd.set_detect_anomaly(True, check_nan=False)" in message


def test_in_anomaly_mode_the_message_tells_operator_and_line_of_each_write(gradloom, anomaly):
    x = gradloom.ones(3, requires_grad=True)
    y = x * 1
    z = y.exp() * y  # THE PRODUCT
    with gradloom.no_grad():
        y -= 1  # THE SUBTRACTION
        y[0] = 5  # THE ASSIGNMENT
        y[1:].add_(2)  # THE WRITE TO A VIEW
    message, _ = failing(z.sum().backward)
    assert "[torch.FloatTensor [3]], which is output 0 of Mul, is at version 3; expected version 0" in message
    said = message.split("\n")[1:]
    assert f"MulBackward0 saved it as `other` at {line_of('THE PRODUCT')}" in said[0]
    assert said[1].startswith(f"sub_.Tensor wrote to it at {line_of('THE SUBTRACTION')}")
    assert line_of("THE ASSIGNMENT") in said[2]
    assert said[3].startswith(f"add_.Tensor wrote to it at {line_of('THE WRITE TO A VIEW')}")


def test_only_writes_after_the_saving_are_told(gradloom, anomaly):
    x = gradloom.ones(3, requires_grad=True)
    y = x * 1
    y.mul_(2)  # BEFORE THE SAVING
    z = y.exp() * y
    y.add_(1)  # AFTER THE SAVING
    message, _ = failing(z.sum().backward)
    assert line_of("AFTER THE SAVING") in message
    assert line_of("BEFORE THE SAVING") not in message


def test_a_write_by_an_optimizer_is_told_with_the_users_line(gradloom, anomaly):
    weight = gradloom.nn.Parameter(gradloom.ones(3))
    optimizer = gradloom.optim.SGD([weight], lr=0.1)
    loss = (weight * weight).sum()
    loss.backward(retain_graph=True)
    optimizer.step()  # THE STEP
    message, _ = failing(loss.backward)
    assert f"wrote to it at {line_of('THE STEP')}" in message


def test_a_write_that_was_not_seen_is_owned_up_to(gradloom):
    with gradloom.autograd.set_detect_anomaly(True):
        x = gradloom.ones(3, requires_grad=True)
        y = x.exp()
    y.mul_(2)
    message, _ = failing(y.sum().backward)
    assert "anomaly detection was off then" in message


def test_a_tensor_of_save_for_backward_is_named_by_its_position(gradloom):
    class Square(gradloom.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        def backward(ctx, grad):
            x, y = ctx.saved_tensors
            return grad * y, grad * x

    x, y = gradloom.ones(2, requires_grad=True), gradloom.ones(2)
    z = Square.apply(x, y)
    y.add_(1)
    message, _ = failing(z.sum().backward)
    assert "SquareBackward saved it as argument 1 of save_for_backward" in message


def test_of_many_writes_the_last_are_kept(gradloom, anomaly):
    x = gradloom.ones(3, requires_grad=True)
    y = x * 1
    z = y.exp() * y
    for _ in range(100):
        y.detach().add_(1)
    assert len(y._vc) < 20
    message, _ = failing(z.sum().backward)
    assert "is at version 100; expected version 0" in message
    assert "too long ago" in message


def test_explaining_keeps_nothing_alive(gradloom):
    y = freed(gradloom)
    loss = y.sum()
    node, gone = weakref.ref(loss.grad_fn), []
    weakref.finalize(loss.grad_fn, gone.append, True)
    gc.disable()
    try:
        try:
            loss.backward()
        except RuntimeError as error:
            assert error.__notes__
        del loss
        assert gone and node() is None
    finally:
        gc.enable()


def test_every_line_marker_is_in_this_file():
    assert inspect.getsourcefile(line_of) == __file__
