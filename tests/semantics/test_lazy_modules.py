"""Parameters and buffers without a shape, and the modules that give them one when they see their first input."""

import copy
import io
import pickle

import pytest


@pytest.mark.parametrize(
    "use",
    [
        lambda torch, u: u + 1,
        lambda torch, u: torch.add(u, 1),
        lambda torch, u: u.sum(),
        lambda torch, u: u.numel(),
        lambda torch, u: u.dim(),
        lambda torch, u: len(u),
        lambda torch, u: u[0],
        lambda torch, u: u.detach(),
        lambda torch, u: u.clone(),
        lambda torch, u: bool(u),
        lambda torch, u: torch.nn.functional.relu(u),
    ],
)
def test_a_parameter_without_a_shape_cannot_be_used(torch, use):
    with pytest.raises(ValueError, match="Attempted to use an uninitialized parameter"):
        use(torch, torch.nn.UninitializedParameter())


def test_what_is_known_of_a_parameter_without_a_shape(torch):
    u = torch.nn.UninitializedParameter(dtype=torch.float64)
    assert repr(u) == "<UninitializedParameter>" and isinstance(u, torch.nn.Parameter) and u.requires_grad
    assert u.dtype is torch.float64 and u.is_leaf and u.grad is None and u.data.shape == (0,)
    assert torch.nn.parameter.is_lazy(u) and not torch.nn.parameter.is_lazy(u.data)
    with pytest.raises(RuntimeError, match="Can't access the shape of an uninitialized parameter or buffer"):
        u.shape  # noqa: B018
    for other in (copy.deepcopy(u), pickle.loads(pickle.dumps(u))):
        assert repr(other) == "<UninitializedParameter>" and other is not u


def test_materialize_makes_an_ordinary_parameter(torch):
    u = torch.nn.UninitializedParameter()
    u.materialize((2, 3))
    assert type(u) is torch.nn.Parameter and u.shape == (2, 3) and u.requires_grad
    (u * 0).sum().backward()
    assert u.grad.shape == (2, 3)
    half = torch.nn.UninitializedParameter(requires_grad=False)
    half.materialize((2,), dtype=torch.float16)
    assert half.dtype is torch.float16 and not half.requires_grad
    buffer = torch.nn.UninitializedBuffer()
    assert torch.nn.parameter.is_lazy(buffer) and not buffer.requires_grad
    buffer.materialize((2,))
    assert type(buffer) is torch.Tensor and buffer.shape == (2,)


def test_a_lazy_module_becomes_an_ordinary_one(torch):
    torch.manual_seed(0)
    lazy = torch.nn.LazyLinear(3)
    assert repr(lazy) == "LazyLinear(in_features=0, out_features=3, bias=True)" and lazy.has_uninitialized_params()
    torch.optim.SGD(lazy.parameters(), lr=0.1)
    lazy.zero_grad()
    found = lazy(torch.ones(1, 4))
    torch.manual_seed(0)
    ordinary = torch.nn.Linear(4, 3)
    assert torch.equal(found, ordinary(torch.ones(1, 4))) and type(lazy) is torch.nn.Linear and lazy.in_features == 4
    assert not lazy._forward_pre_hooks and not lazy._load_state_dict_pre_hooks
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        lazy(torch.ones(1, 5))


def test_conversions_before_the_first_input_hold(torch):
    lazy = torch.nn.LazyLinear(3).double()
    assert lazy.weight.dtype is torch.float64
    assert lazy(torch.ones(1, 2, dtype=torch.float64)).dtype is torch.float64
    assert torch.nn.LazyLinear(3).to("cpu").eval()(torch.ones(1, 2)).shape == (1, 3)


def test_state_goes_in_and_out_without_shapes(torch):
    lazy = torch.nn.LazyLinear(3)
    assert repr(lazy.state_dict()["weight"]) == "<UninitializedParameter>"
    torch.nn.LazyLinear(3).load_state_dict(lazy.state_dict())
    lazy.load_state_dict(torch.nn.Linear(4, 3).state_dict())
    assert lazy.weight.shape == (3, 4) and type(lazy) is torch.nn.LazyLinear
    assert lazy(torch.ones(1, 4)).shape == (1, 3) and type(lazy) is torch.nn.Linear and lazy.in_features == 4
    with pytest.raises(RuntimeError, match="Can't access the shape of an uninitialized parameter or buffer"):
        torch.nn.Linear(4, 3).load_state_dict(torch.nn.LazyLinear(3).state_dict())
    file = io.BytesIO()
    torch.save(torch.nn.LazyLinear(3).state_dict(), file)
    file.seek(0)
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        torch.load(file)
    file.seek(0)
    assert torch.nn.parameter.is_lazy(torch.load(file, weights_only=False)["bias"])


@pytest.mark.parametrize(
    ("name", "shape", "options"),
    [
        ("Conv1d", (1, 2, 8), {}),
        ("Conv2d", (1, 2, 8, 8), {}),
        ("Conv3d", (1, 2, 8, 8, 8), {"bias": False}),
        ("Conv2d", (2, 8, 8), {"groups": 2}),
        ("ConvTranspose1d", (1, 2, 8), {}),
        ("ConvTranspose2d", (1, 2, 8, 8), {"stride": 2}),
        ("ConvTranspose3d", (1, 2, 4, 4, 4), {}),
    ],
)
def test_a_lazy_convolution_draws_what_an_ordinary_one_draws(torch, name, shape, options):
    image = torch.rand(shape)
    channels = shape[-1 - int(name[-2])]
    torch.manual_seed(0)
    lazy = getattr(torch.nn, f"Lazy{name}")(4, 3, **options)
    found = lazy(image)
    torch.manual_seed(0)
    ordinary = getattr(torch.nn, name)(channels, 4, 3, **options)
    assert torch.equal(found, ordinary(image)) and repr(lazy) == repr(ordinary) and type(lazy) is type(ordinary)


def test_what_lazy_convolutions_refuse(torch):
    with pytest.raises(RuntimeError, match=r"Expected 3D \(unbatched\) or 4D \(batched\) input to LazyConv2d"):
        torch.nn.LazyConv2d(4, 3)(torch.ones(8, 8))
    with pytest.raises(ValueError, match="in_channels must be divisible by groups"):
        torch.nn.LazyConv2d(4, 3, groups=2)(torch.ones(1, 3, 8, 8))


@pytest.mark.parametrize(
    ("name", "shape", "options"),
    [
        ("BatchNorm1d", (4, 3), {}),
        ("BatchNorm2d", (2, 3, 4, 4), {"affine": False}),
        ("BatchNorm3d", (2, 3, 4, 4, 4), {"track_running_stats": False}),
        ("InstanceNorm1d", (2, 3, 4), {"affine": True, "track_running_stats": True}),
        ("InstanceNorm2d", (2, 3, 4, 4), {"affine": True, "track_running_stats": True, "momentum": 0.5}),
        ("InstanceNorm3d", (2, 3, 4, 4, 4), {"affine": True, "track_running_stats": False}),
    ],
)
def test_a_lazy_norm_learns_its_channels(torch, name, shape, options):
    image = torch.rand(shape)
    lazy, ordinary = getattr(torch.nn, f"Lazy{name}")(**options), getattr(torch.nn, name)(3, **options)
    assert torch.equal(lazy(image), ordinary(image)) and repr(lazy) == repr(ordinary)
    assert lazy.state_dict().keys() == ordinary.state_dict().keys()


def test_modules_in_a_row_learn_one_after_the_other(torch):
    net = torch.nn.Sequential(torch.nn.LazyConv2d(2, 3), torch.nn.Flatten(), torch.nn.LazyLinear(1))
    assert net(torch.ones(2, 3, 5, 5)).shape == (2, 1)
    assert [type(part).__name__ for part in net] == ["Conv2d", "Flatten", "Linear"]


def test_lazy_modules_of_ones_own(torch):
    class Scale(torch.nn.modules.lazy.LazyModuleMixin, torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.factor = torch.nn.UninitializedParameter()

        def initialize_parameters(self, x):
            self.factor.materialize(x.shape)
            torch.nn.init.constant_(self.factor, 2.0)

        def forward(self, x):
            return x * self.factor

    scale = Scale()
    assert scale(torch.ones(2)).tolist() == [2.0, 2.0] and type(scale) is Scale

    class Forgetful(Scale):
        def initialize_parameters(self, x):
            pass

    with pytest.raises(RuntimeError, match="Forgetful has not been fully initialized"):
        Forgetful()(torch.ones(2))
