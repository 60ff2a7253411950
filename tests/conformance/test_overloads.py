"""The overload parser against PyTorch's, call by call: the same calls are accepted, and errors say the same.

Each line is evaluated twice: with PyTorch, and with functions over the same signatures on a fake tensor whose
wrappers do nothing. gradloom's errors give a reason under every signature, PyTorch's under those without
defaults; they are compared without the reasons, and PyTorch's reasons must be among gradloom's.
"""

import enum
import warnings
from pathlib import Path

import numpy as np
import pytest

from gradloom.dispatch.overloads import overloaded_function, overloaded_method
from gradloom.dispatch.overloads.signature import Signature
from tests.core.fake_tensor import FakeGenerator, FakeTensor, contiguous, fake_types, int64, parameters

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures(fake_types.__name__)

OPTIONS = (
    "ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=False, "
    "bool? requires_grad=False"
)
CONV = "Tensor input, Tensor weight, Tensor? bias=None, int[2] stride=1, {} int[2] dilation=1, int groups=1"

# Functions whose first parameter is `self` are methods, too. The order is PyTorch's order of trial.
SIGNATURES = {
    "sum": [
        "Tensor self, *, ScalarType? dtype=None",
        "Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None, Tensor? out=None",
    ],
    "max": [
        "Tensor self, *, Tensor? out=None",
        "Tensor self, Tensor other, *, Tensor? out=None",
        "Tensor self, int dim, bool keepdim=False, *, Tensor[2]? out=None",
    ],
    "std": [
        "Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False, *, Tensor? out=None",
        "Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False, Tensor? out=None",
        "Tensor self, bool unbiased=True",
    ],
    "add": ["Tensor|number self, Tensor|number other, *, Scalar alpha=1, Tensor? out=None"],
    "mul": ["Tensor|number self, Tensor|number other, *, Tensor? out=None"],
    "pow": [
        "Tensor self, Tensor exponent, *, Tensor? out=None",
        "Scalar self, Tensor exponent, *, Tensor? out=None",
        "Tensor self, Scalar exponent, *, Tensor? out=None",
    ],
    "eq": ["Tensor self, Tensor other, *, Tensor? out=None", "Tensor self, Scalar other, *, Tensor? out=None"],
    "clamp": [
        "Tensor self, Tensor? min=None, Tensor? max=None, *, Tensor? out=None",
        "Tensor self, Scalar? min=None, Scalar? max=None, *, Tensor? out=None",
    ],
    "where": [
        "Tensor condition",
        "Tensor condition, Tensor self, Tensor other, *, Tensor? out=None",
        "Tensor condition, Scalar self, Tensor other",
        "Tensor condition, Tensor self, Scalar other",
        "Tensor condition, Scalar self, Scalar other",
    ],
    "lerp": [
        "Tensor self, Tensor end, Tensor weight, *, Tensor? out=None",
        "Tensor self, Tensor end, Scalar weight, *, Tensor? out=None",
    ],
    "masked_fill": ["Tensor self, Tensor mask, Tensor value", "Tensor self, Tensor mask, Scalar value"],
    "mm": [
        "Tensor self, Tensor mat2, *, Tensor? out=None",
        "Tensor self, Tensor mat2, ScalarType out_dtype, *, Tensor? out=None",
    ],
    "neg": ["Tensor self, *, Tensor? out=None"],
    "atan2": ["Tensor self, Tensor other, *, Tensor? out=None"],
    "transpose": ["Tensor self, int dim0, int dim1"],
    "unsqueeze": ["Tensor self, int dim"],
    "cumsum": ["Tensor self, int dim, *, ScalarType? dtype=None, Tensor? out=None"],
    "permute": ["Tensor self, int[] dims"],
    "reshape": ["Tensor self, int[] shape"],
    "flip": ["Tensor self, int[] dims"],
    "index_select": ["Tensor self, int dim, Tensor index, *, Tensor? out=None"],
    "cat": ["Tensor[] tensors, int dim=0, *, Tensor? out=None"],
    "stack": ["Tensor[] tensors, int dim=0, *, Tensor? out=None"],
    "tensor_split": [
        "Tensor self, int[] indices, int dim=0",
        "Tensor self, Tensor tensor_indices_or_sections, int dim=0",
        "Tensor self, int sections, int dim=0",
    ],
    "zeros": ["int[] size, *, Tensor? out=None, " + OPTIONS],
    "full": ["int[] size, Scalar fill_value, *, Tensor? out=None, " + OPTIONS],
    "rand": [
        "int[] size, *, Generator? generator, Tensor? out=None, " + OPTIONS,
        "int[] size, *, Tensor? out=None, " + OPTIONS,
    ],
    "normal": [
        "Tensor mean, Tensor std, *, Generator? generator=None, Tensor? out=None",
        "Tensor mean, float std=1, *, Generator? generator=None, Tensor? out=None",
        "float mean, Tensor std, *, Generator? generator=None, Tensor? out=None",
        "float mean, float std, int[] size, *, Generator? generator=None, Tensor? out=None, " + OPTIONS,
    ],
    "bernoulli": [
        "Tensor self, *, Generator? generator=None, Tensor? out=None",
        "Tensor self, float p, *, Generator? generator=None",
    ],
    "dropout": ["Tensor input, float p, bool train"],
    "allclose": ["Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False"],
    "conv2d": [CONV.format("int[2] padding=0,"), CONV.format('str padding="valid",')],
    "max_pool2d": [
        "Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool ceil_mode=False"
    ],
    "upsample_bilinear2d": [
        "Tensor input, int[]? output_size, bool align_corners, float[]? scale_factors",
        "Tensor self, int[2] output_size, bool align_corners, float? scales_h=None, "
        "float? scales_w=None, *, Tensor? out=None",
    ],
}
METHODS = {
    "view": ["Tensor self, ScalarType dtype", "Tensor self, int[] size"],
    "repeat": ["Tensor self, int[] repeats"],
    "expand": ["Tensor self, int[] size, *, bool implicit=False"],
    "contiguous": ["Tensor self, *, MemoryFormat memory_format=contiguous_format"],
    "fill_": ["Tensor self, Tensor value", "Tensor self, Scalar value"],
    "where": ["Tensor condition, Tensor self, Tensor other", "Tensor condition, Tensor self, Scalar other"],
    "roll": ["Tensor self, int[1] shifts, int[1] dims=[]"],
}

CALLS = """
sum(x, 'a') ; sum(x, 0.5) ; sum() ; sum(3) ; sum(x, 0, True, 5) ; sum(x, dim=0, foo=1) ; sum(x, foo=1) ;
x.sum('a') ; x.sum(0, dim=0) ; x.sum(True) ; x.sum((True,)) ; x.sum(zero) ; x.sum(i8(0)) ; x.sum([]) ;
x.sum(None) ; x.sum(0, 1) ; x.sum(0, None) ; x.sum(0, npbool) ; x.sum(0, true) ; x.sum(axis=0) ;
x.sum(axis=0, keepdims=True) ; x.sum(dtype=float) ; x.sum(dtype=bool) ; x.sum(dtype='f') ;
x.sum(dtype=np.float32) ; x.sum(int64) ; x.sum((0, 1), False, int64) ; sum(x, 0, out=3) ;
sum(x, 0, out=None) ; x.sum(0, out=x) ; x.sum(grad) ; x.sum([grad]) ; x.sum(ONE) ; x.sum((0, 1.0)) ;
x.sum((1.0, 0)) ; x.sum(dim=(0, None)) ; sum(x, dim=[0, 'a']) ; x.sum('a', foo=1, bar=2) ;
x.sum(keepdim=True) ; sum(input=x, dim=0) ; sum(a=x) ; sum(x=x) ; sum(x1=x) ; sum(self=x) ;
x.sum(0, keepdim=1) ; sum(x, foo=1, bar=2) ; max(x) ; max(x, 0) ; max(x, x) ; max(x, 3.0) ;
max(x, 0, True, True) ; max(x, axis=0) ; x.max(dim=0, keepdims=True) ; max(x, 0, out=(x,)) ;
max(x, 0, out=(x, 3)) ; std(x) ; std(x, 0) ; std(x, True) ; std(x, [0], True) ; std(x, 0, correction=2) ;
std(x, unbiased=False) ; std(x, dim=0, unbiased=True, keepdim=True) ; add(x, 'a') ; add(x, None) ;
add(3, x) ; add(x, 3, alpha=2) ; add(x, 3, alpha='x') ; add(x1=x, x2=3) ; add(x, f32(2)) ;
add(x, np.array(2)) ; add(x, 1, alpha=grad) ; mul(x, True) ; mul(x, 2j) ; mul(x, npbool) ; mul(x, 'a') ;
x.mul(other=2) ; pow(2, x) ; pow(x, 2) ; pow(2, 3) ; pow(x, 'a') ; x.pow('a') ; x.pow(x) ;
pow(self=2, exponent=x) ; pow(input=2, exponent=x) ; x.pow(exponent=2) ; x.pow(grad) ; x.eq('a') ;
eq(x, None) ; x.eq(f32(1)) ; clamp(x, 0) ; clamp(x, min=x) ; clamp(x, 0, x) ; clamp(x, 'a') ;
clamp(x, None, 1) ; clamp(x, max=half) ; x.clamp('a') ; x.clamp(grad) ; x.clamp(min=1, max=half) ;
where(b, 1, x) ; where(b, 1, 2) ; where(b) ; where(b, x, 'a') ; where(b, x) ; where(True, x, x) ;
x.where(b, 3) ; x.where(b) ; x.where('a') ; where(b, 'a', 'b') ; lerp(x, x, 0.5) ; lerp(x, x, 'a') ;
lerp(x, 3, 0.5) ; lerp(x, end=x, weight=half) ; x.masked_fill(b, 3) ; x.masked_fill(b, grad) ;
x.masked_fill(b, 'a') ; x.masked_fill(mask='a', value=3) ; x.masked_fill('a', value=3) ;
x.masked_fill(3, foo='a') ; x.masked_fill(3) ; mm(x) ; mm() ; mm(x, x, x) ; mm(x, 3) ; mm(3, x) ;
mm(mat2=x) ; mm(x, x, out=3) ; mm(x, x, foo=1) ; mm(x, x, foo=2, bar=3) ; neg(3) ; neg() ; neg(x, x) ;
neg(x=x) ; neg(x, foo=3) ; neg(None) ; neg(x, out=None) ; atan2(x1=x, x2=x) ; atan2(x, y=x) ; atan2(x, 2) ;
transpose(x, 0, 1) ; transpose(x, 0, 1.0) ; transpose(x, 0) ; transpose(x) ; transpose(x, True, False) ;
x.transpose(i8(0), one) ; x.transpose(half, 1) ; x.transpose(0, row) ; x.transpose(index, 0) ;
x.transpose(None, 0) ; transpose(x, 0, 1, foo=2, bar=3) ; transpose(x, 0, 1, 2) ; transpose(x, 0, dim0=1) ;
transpose(x, 0, 1, dim0=1) ; transpose(x, 0, dim0=1, dim1=1) ; transpose(x, 'a', foo=1) ;
transpose(x, foo=1) ; transpose(input=x, dim0=0, dim1=1) ; x.transpose() ; x.transpose(0) ;
x.unsqueeze(True) ; x.unsqueeze(npbool) ; x.unsqueeze(f32(1)) ; x.unsqueeze(true) ; x.unsqueeze(1.0) ;
x.unsqueeze(ONE) ; x.unsqueeze(dim='a') ; unsqueeze(x, axis=0) ; cumsum(x, axis=0) ;
cumsum(x, axis=0, dim=0) ; cumsum(x, 0, axis=0) ; cumsum(x, 0, dtype='a') ; cumsum(x, 0, int64) ;
cumsum(x, axis='a') ; cumsum(x=3, dim=0) ; cumsum(x, 0, out='a') ; x.permute(1, 0) ; x.permute((1, 0)) ;
x.permute(dims=(1, 0)) ; x.permute(1, (0,)) ; x.permute() ; permute(x, 1, 0) ; permute(x, (1, 0)) ;
x.permute((1, 0), 2) ; x.permute([1, 0], [2]) ; x.permute(dims=1) ; x.reshape(3, 2) ; reshape(x, 3, 2) ;
x.reshape() ; x.reshape(shape=(3, 2)) ; x.flip(0, 1) ; flip(x, 0) ; flip(x, dims=0) ; flip(x, axes=(0,)) ;
flip(x, (0,)) ; index_select(x, row, 0) ; index_select(x, 0, row) ; index_select(x, 0, 3) ; cat([x, x]) ;
cat((x, x), 1) ; cat([x, 3]) ; cat([x, 3], 0) ; cat(x) ; cat(3) ; cat([x, None]) ; cat([x, x], dim='a') ;
cat(iter([x])) ; cat(tensors=[x]) ; stack(x) ; stack([x, 3]) ; stack((x, x), axis=1) ; cat([x, x], 0, 1) ;
tensor_split(x, 2) ; tensor_split(x, (1, 2)) ; tensor_split(x, one) ; tensor_split(x, 'a') ; zeros(2, 3) ;
zeros((2, 3)) ; zeros(2, 3, dtype=int64) ; zeros(2, 'a') ; zeros('a') ; zeros() ; zeros(2.0) ;
zeros(2, 3.0) ; zeros(2, device='cpu') ; zeros(2, device=None) ; zeros(2, device=1.5) ;
zeros(2, device=True) ; zeros(2, dtype='a') ; zeros(2, layout='a') ; zeros(2, requires_grad=1) ;
zeros(2, requires_grad=None) ; zeros(2, pin_memory=0) ; zeros(2, foo=1) ; zeros(True) ; zeros(i8(2)) ;
zeros(one) ; zeros(size=(2,)) ; zeros(size=2) ; zeros(np.array([2, 2])) ; zeros(2, dtype=str) ;
zeros(2, dtype=np.int32) ; zeros(index) ; zeros([]) ; zeros((2, 'a')) ; zeros(2, 3, size=(1,)) ;
full((2,), 3) ; full((2,), half) ; full((2,), 'a') ; full((2,), None) ; full(2, 3) ; full((2,), grad) ;
full((2,), row) ; full((2,), np.complex64(1j)) ; full((2,), npbool) ; full((2,), np.float16(1)) ;
full((2,), ONE) ; full((2,), np.array(1)) ; full(size=(2,), fill_value=np.longdouble(1)) ;
rand(2, generator=3) ; rand(2, 3) ; rand(size=(2,), generator=None) ; rand(2, generator=generator) ;
normal(0., 1.) ; normal(0., 1., size=(2,)) ; normal(x, 'a') ; normal(0, x) ; normal(x, x) ;
bernoulli(b01, 0.5) ; bernoulli(b01, generator=3) ; bernoulli(b01, generator=generator) ;
dropout(x, grad, True) ; dropout(x, zero, True) ; dropout(x, true, True) ; dropout(x, row, True) ;
dropout(x, np.float64(0), True) ; dropout(x, i8(0), True) ; dropout(x, 0j, True) ; dropout(x, True, True) ;
dropout(x, 0.5, 1) ; dropout(x, 'a', True) ; dropout(x, npbool, True) ; dropout(x, train=True, p=0.5) ;
allclose(x, x, 1) ; allclose(x, x, True) ; allclose(x, x, 'a') ; allclose(x, x, half) ;
allclose(x, x, equal_nan=1) ; conv2d(image, kernel) ; conv2d(image, kernel, None, 1, 2) ;
conv2d(image, kernel, padding='valid') ; conv2d(image, kernel, stride='a') ;
conv2d(image, kernel, None, (1, 1), (2, 2)) ; conv2d(image) ; conv2d(image, 'a') ;
conv2d(image, kernel, None, stride=(1, 1), groups=1) ; max_pool2d(image, 2) ; max_pool2d(image, 2.0) ;
max_pool2d(image, (2,)) ; max_pool2d(image, 'a') ; max_pool2d() ; max_pool2d(image, 2, 2, 0, 1, False, 3) ;
max_pool2d(image, 2, stride=[]) ; max_pool2d(image, kernel_size=2) ;
upsample_bilinear2d(image, None, True, [2.0, 2.0]) ; upsample_bilinear2d(image, None, True, [2, 2]) ;
upsample_bilinear2d(image, None, True, 2.0) ; upsample_bilinear2d(image, None, True, ['a']) ;
upsample_bilinear2d(image, None, True, [2., 'a']) ; upsample_bilinear2d(image, (8, 8), True, 'a') ;
upsample_bilinear2d(image, None, True, [2., None]) ; upsample_bilinear2d(image, (8, 8), True, 2.0) ;
x.view(2, 3) ; x.view((2, 3)) ; x.view([2, 3]) ; x.view() ; x.view('a') ; x.view(2.0, 3) ;
x.view((2.0, 3)) ; x.view((2, 3), 4) ; x.view(int32) ; x.view(3, 2, dtype=int64) ; x.view(True, 6) ;
x.view((True, 6)) ; x.view(i8(3), 2) ; x.view(three, 2) ; x.view((three, 2)) ; x.view(row) ;
x.view(np.array([3, 2])) ; x.view(-1) ; x.view(size=(3, 2)) ; x.view(size=6) ; x.view(6, True) ;
x.view((6, True)) ; x.view(6, 1.0) ; x.view((6, 1.0)) ; x.view(6, half) ; x.view((6, one)) ;
x.view((npbool, 6)) ; x.view((6, f32(1))) ; x.view([[6]]) ; x.view((None,)) ; x.view(2, 3, size=(2, 3)) ;
x.view(ONE, 6) ; x.view((ONE, 6)) ; x.view(foo=1, size=(1,)) ; x.view(object(), 6) ; x.view(6, object()) ;
x.view(3, 2, 1, 1) ; x.repeat(2, 2) ; x.repeat(2.0) ; x.expand(4, 2, 3) ; x.expand() ;
x.expand(2, -1, implicit=False) ; x.contiguous(memory_format=None) ; x.contiguous(1) ;
x.contiguous(memory_format=contiguous_format) ; x.fill_('a') ; x.fill_(2) ; x.fill_(half) ; x.roll(1, 0) ;
x.roll((1,), (0,)) ; x.roll(1) ; x.roll(1, 2, 3) ; x.roll(1.0)
"""


def calls():
    return [call.strip() for call in CALLS.split(" ;")]


class ONE(enum.IntEnum):
    VALUE = 1


class Index:
    def __index__(self):
        return 1


VALUES = {"np": np, "i8": np.int8, "f32": np.float32, "npbool": np.bool_(False), "ONE": ONE.VALUE, "index": Index()}


def of_torch():
    x = torch.ones(2, 3)
    functions = {name: getattr(torch, name, None) or getattr(torch._C._nn, name) for name in SIGNATURES}
    return (
        functions
        | VALUES
        | {
            "x": x,
            "zero": torch.tensor(0),
            "one": torch.tensor(1),
            "three": torch.tensor(3),
            "half": torch.tensor(0.5),
            "true": torch.tensor(True),
            "row": torch.tensor([0, 1]),
            "grad": torch.tensor(1.0, requires_grad=True),
            "b": x > 0,
            "b01": x,
            "image": torch.ones(1, 1, 4, 4),
            "kernel": torch.ones(1, 1, 2, 2),
            "generator": torch.Generator(),
            "int32": torch.int32,
            "int64": torch.int64,
            "contiguous_format": torch.contiguous_format,
        }
    )


@pytest.fixture
def of_gradloom():
    def entries(signatures):
        return [(parameters(f"f({signature})"), lambda *args, **kwargs: None) for signature in signatures]

    methods = {name: s for name, s in SIGNATURES.items() if s[-1].startswith(("Tensor self", "Tensor|number self"))}
    methods["pow"] = [s for s in SIGNATURES["pow"] if s.startswith("Tensor")]
    T = type(
        "Tensor", (FakeTensor,), {name: overloaded_method(name, entries(s)) for name, s in (methods | METHODS).items()}
    )
    return (
        {name: overloaded_function(name, entries(s)) for name, s in SIGNATURES.items()}
        | VALUES
        | {
            "x": T(np.ones((2, 3))),
            "zero": T(0),
            "one": T(1),
            "three": T(3),
            "half": T(0.5),
            "true": T(True),
            "row": T([0, 1]),
            "grad": T(1.0, requires_grad=True),
            "b": T(np.ones((2, 3), bool)),
            "b01": T(np.ones((2, 3))),
            "image": T(np.ones((1, 1, 4, 4))),
            "kernel": T(np.ones((1, 1, 2, 2))),
            "generator": FakeGenerator(),
            "int32": int64,
            "int64": int64,
            "contiguous_format": contiguous,
        }
    )


def outcome(call, names):
    """None if the call is accepted, else the message of the TypeError."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            eval(call, {}, names)
    except TypeError as error:
        return str(error)
    except RuntimeError as error:  # accepted by the parser, refused by the operator
        assert "shape" in str(error) or "boolean" in str(error).lower(), error
    return None


def comparable(message):
    """The message without reasons, and what was given in a fixed order, as PyTorch's is arbitrary."""
    if message is None:
        return None
    lines = [line for line in message.splitlines() if "didn't match because" not in line]
    first, got, rest = lines[0].partition(" got (")
    given, end, rest = rest.partition("), but")
    if end:
        lines[0] = f"{first} got ({', '.join(sorted(given.rstrip(', ').split(', ')))}), but{rest}"
    return "\n".join(lines)


def reasons(message):
    """{signature: why it did not match} as far as the message says, without the marks at single arguments.

    PyTorch compares names of types as text, and marks every keyword and every value of an optional parameter.
    """
    lines = (message or "").replace("!, )", ")").replace("!", "").splitlines()
    return {line: reason.strip() for line, reason in zip(lines, lines[1:], strict=False) if "didn't match" in reason}


@pytest.mark.parametrize("call", calls())
def test_calls_are_taken_or_refused_as_pytorch_does(call, of_gradloom):
    theirs = outcome(call, of_torch())
    for _ in range(2):  # decided, then remembered
        ours = outcome(call, of_gradloom)
        assert comparable(ours) == comparable(theirs)
        assert (ours or "").endswith("\n") == (theirs or "").endswith("\n")
    ours = reasons(ours)
    for signature, reason in reasons(theirs).items():
        assert ours[signature] == reason


def test_every_native_schema_is_understood():
    folder = Path(pytest.importorskip("torchgen").__file__).parent
    path = folder / "packaged/ATen/native/native_functions.yaml"
    schemas = [line.partition(":")[2].strip() for line in path.read_text().splitlines() if line.startswith("- func:")]
    refused = set()
    for schema in schemas:
        try:
            Signature(parameters(schema), None)
        except ValueError as error:
            refused.add(str(error).partition(";")[0])
    assert len(schemas) > 2000
    unsupported = ("Stream", "DeviceIndex")
    assert refused == {f"argument type '{name}' is not supported" for name in unsupported}


def test_the_calls_cover_success_and_failure():
    found = [outcome(call, of_torch()) is None for call in calls()]
    assert len(found) > 250 and found.count(True) > 100 and found.count(False) > 100
