"""The meta device: tensors with a shape, a dtype, strides and a graph, and no data."""

import copy
import io
import pickle

import pytest


def meta(torch, *size, **options):
    return torch.empty(*size, device="meta", **options)


def geometry(t):
    return tuple(t.shape), t.stride(), t.storage_offset(), str(t.dtype).rpartition(".")[2], str(t.device)


def test_a_tensor_has_a_geometry_and_a_device(torch):
    x = meta(torch, 2, 3)
    assert geometry(x) == ((2, 3), (3, 1), 0, "float32", "meta")
    assert x.is_meta and not x.is_cpu and x.get_device() == -1 and x.data_ptr() == 0
    assert isinstance(x, torch.Tensor) and x.type() == "torch.meta.FloatTensor"
    assert x.numel() == 6 and x.is_contiguous() and len(x) == 2


@pytest.mark.parametrize(
    "make",
    [
        lambda torch: torch.tensor([[1.0, 2.0]], device="meta"),
        lambda torch: torch.as_tensor([1, 2], device="meta"),
        lambda torch: torch.zeros(2, 3, device="meta", dtype=torch.int64),
        lambda torch: torch.ones(2, device=torch.device("meta")),
        lambda torch: torch.full((2, 1), True, device="meta"),
        lambda torch: torch.arange(2, 9, 2, device="meta"),
        lambda torch: torch.linspace(0, 1, 7, device="meta"),
        lambda torch: torch.eye(3, 4, device="meta"),
        lambda torch: torch.tril_indices(3, 3, device="meta"),
        lambda torch: torch.randperm(5, device="meta"),
        lambda torch: torch.randint(3, (2, 2), device="meta"),
        lambda torch: torch.empty_strided((2, 3), (1, 4), device="meta"),
        lambda torch: torch.empty(2, 3, 4, 5, device="meta", memory_format=torch.channels_last),
        lambda torch: torch.zeros_like(torch.ones(2, 3).T, device="meta"),
        lambda torch: torch.ones(2, 3).to("meta").new_zeros(4),
        lambda torch: meta(torch, 2, 3).new_tensor([1, 2]),
        lambda torch: meta(torch, 3, 2).T.clone(),
        lambda torch: torch.empty_like(meta(torch, 3, 2).T, device="cpu"),
        lambda torch: meta(torch, 3, 2).double(),
        lambda torch: torch.ones(2, 3, dtype=torch.float64).T.to("meta"),
    ],
)
def test_factories_make_tensors_without_data(torch, make):
    reference = pytest.importorskip("torch")
    assert geometry(make(torch)) == geometry(make(reference))


VIEWS = {
    "transpose": lambda x: x.transpose(0, 2),
    "select": lambda x: x[1],
    "slice": lambda x: x[:, 1:, ::2],
    "none": lambda x: x[None, ..., 0],
    "expand": lambda x: x[:, :1].expand(2, 5, 4),
    "diagonal": lambda x: x.diagonal(0, 1, 2),
    "unfold": lambda x: x.unfold(2, 2, 1),
    "view": lambda x: x.view(6, 4),
    "reshape copies": lambda x: x.transpose(0, 2).reshape(-1),
    "split": lambda x: x.split(2, 1)[1],
    "unbind": lambda x: x.unbind(1)[2],
    "as_strided": lambda x: x.as_strided((2, 2), (1, 2), 3),
    "movedim": lambda x: x.movedim(0, -1),
    "view_as_complex": lambda x: x.view(2, 3, 2, 2).contiguous() + 0,
    "narrow": lambda x: x.narrow(2, 1, 2),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_have_the_geometry_of_the_cpu(torch, name):
    view = VIEWS[name]
    found, expected = view(meta(torch, 2, 3, 4)), view(torch.zeros(2, 3, 4))
    assert geometry(found)[:4] == geometry(expected)[:4] and found.is_meta
    assert found._is_view() == expected._is_view()


def test_views_share_versions_and_storages(torch):
    x = meta(torch, 2, 3)
    y = x[1]
    y.add_(1)
    assert x._version == 1 and y._base is x
    assert x.untyped_storage().nbytes() == 24 and str(x.untyped_storage().device) == "meta"
    x.t_()
    assert geometry(x)[:2] == ((3, 2), (1, 3))


def message(function):
    with pytest.raises((RuntimeError, TypeError, NotImplementedError)) as found:
        function()
    return str(found.value)


def test_reading_values_raises(torch):
    x, s = meta(torch, 2, 3), meta(torch, ())
    for read in (s.item, lambda: bool(s), lambda: float(s), lambda: int(s), lambda: 3 in x):
        assert message(read) == "Tensor.item() cannot be called on meta tensors"
    assert "a Tensor with 6 elements cannot be converted to Scalar" in message(x.item)
    for read in (x.tolist, x.cpu, lambda: x.to("cpu"), lambda: torch.zeros(2, 3).copy_(x)):
        assert message(read) == "Cannot copy out of meta tensor; no data!"
        with pytest.raises(NotImplementedError):
            read()
    with pytest.raises(TypeError, match="can't convert meta device type tensor to numpy"):
        x.numpy()
    with pytest.raises(NotImplementedError, match=r"register_meta function for torch.nonzero\(\)"):
        x.nonzero()
    with pytest.raises(NotImplementedError, match="nonzero"):
        x[x > 0]
    for function in (lambda: torch.masked_select(x, x > 0), lambda: torch.unique(x), lambda: torch.equal(x, x)):
        with pytest.raises(NotImplementedError, match="attempted to run this operator with Meta tensors"):
            function()
    with pytest.raises(RuntimeError, match="cannot repeat_interleave a meta tensor without output_size"):
        torch.repeat_interleave(torch.zeros(3, dtype=torch.int64, device="meta"))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "bool"])
def test_text(torch, dtype):
    shown = "" if dtype == "float32" else f", dtype=torch.{dtype}"
    assert repr(meta(torch, 2, 3, dtype=getattr(torch, dtype))) == f"tensor(..., device='meta', size=(2, 3){shown})"
    parameter = torch.nn.Linear(3, 2, device="meta").weight
    assert repr(parameter) == ("Parameter containing:\ntensor(..., device='meta', size=(2, 3), requires_grad=True)")


def test_devices_do_not_mix_but_for_numbers_and_indices(torch):
    x, c = meta(torch, 2, 3), torch.ones(2, 3)
    for mixed in (lambda: x + c, lambda: torch.cat([x, c]), lambda: torch.lerp(x, x, c), lambda: c + meta(torch, ())):
        assert "is not on the expected device" in message(mixed)
    assert (x + torch.tensor(1.0)).is_meta and (torch.tensor(1.0) * x).is_meta
    assert x[torch.tensor([0, 0, 1])].shape == (3, 3)
    assert x[c > 0].shape == (6,)
    mask = torch.tensor([True, False])
    assert x[mask].shape == (1, 3) and meta(torch, 20, 30)[:, mask.repeat(15)].shape == (20, 15)
    assert x[mask, torch.tensor([0])].shape == (1,)
    with pytest.raises(IndexError, match="The shape of the mask"):
        meta(torch, 20, 30)[mask]
    assert x.copy_(c) is x


@pytest.mark.parametrize(
    "mix",
    [
        lambda t, x, c, i: t.meshgrid(x[0], c[0], indexing="ij"),
        lambda t, x, c, i: t.cartesian_prod(x[0], c[0]),
        lambda t, x, c, i: x.index_add(1, i, x),
        lambda t, x, c, i: x.index_copy_(1, i, x),
        lambda t, x, c, i: c.index_fill(1, i.to("meta"), 1.0),
        lambda t, x, c, i: x.index_fill_(1, i, 1.0),
        lambda t, x, c, i: x.masked_fill(x > 0, t.tensor(1.0)),
        lambda t, x, c, i: t.take_along_dim(x, i[None], 1),
        lambda t, x, c, i: x.set_(c),
        lambda t, x, c, i: c.set_(x),
        lambda t, x, c, i: c.put_(i.to("meta"), c[0]),
        lambda t, x, c, i: x.type_as(c),
    ],
)
def test_mixed_devices_are_refused(torch, mix):
    with pytest.raises((RuntimeError, NotImplementedError)):
        mix(torch, meta(torch, 2, 3), torch.ones(2, 3), torch.tensor([0, 1, 2]))


def test_tensors_of_the_cpu_are_not_written_without_data(torch):
    reference = pytest.importorskip("torch")
    for t in (torch, reference):
        c = t.ones(2, 3)
        with pytest.raises(NotImplementedError, match="Cannot inplace into non-meta tensor with meta tensor argument"):
            c.put_(t.tensor([0]).to("meta"), t.zeros(1))
        assert c.tolist() == [[1.0] * 3] * 2
    assert torch.ones(2).type_as(meta(torch, 1)).is_meta


@pytest.mark.parametrize(
    "function",
    [
        lambda make, torch: make(2, 3).sum(5),
        lambda make, torch: make(2, 3).view(7),
        lambda make, torch: make(2, 3).transpose(0, 2),
        lambda make, torch: make(2, 3).select(1, 4),
    ],
)
def test_a_wrong_shape_raises_what_it_raises_on_the_cpu(torch, function):
    errors = []
    for make in (lambda *size: torch.zeros(size), lambda *size: meta(torch, *size)):
        with pytest.raises((RuntimeError, IndexError)) as found:
            function(make, torch)
        errors.append((type(found.value), str(found.value).splitlines()[0]))
    assert errors[0] == errors[1]


def test_wrong_shapes_of_operators_that_compute_raise_the_kernels_words(torch):
    if torch.__name__ == "torch":
        pytest.skip("PyTorch has other words for the meta device")
    for function in (
        lambda make: make(2, 3) + make(2, 4),
        lambda make: make(200, 300) + make(200, 400),
        lambda make: make(200, 300) @ make(200, 400),
        lambda make: torch.cat([make(20, 30), make(20, 30, 40)]),
        lambda make: torch.nn.functional.layer_norm(make(20, 30), (40,)),
        lambda make: torch.nn.functional.conv2d(make(20, 3, 30, 30), make(8, 4, 3, 3)),
    ):
        errors = []
        for make in (lambda *size: torch.zeros(size), lambda *size: meta(torch, *size)):
            with pytest.raises(RuntimeError) as found:
                function(make)
            errors.append(str(found.value))
        assert errors[0] == errors[1]


def test_gradients_are_meta_tensors(torch):
    x = meta(torch, 5, 7, requires_grad=True)
    w = meta(torch, 7, 3, requires_grad=True)
    y = torch.nn.functional.softmax((x @ w).tanh(), -1)
    assert y.grad_fn.name().startswith("SoftmaxBackward")
    (y * y).sum().backward()
    (g,) = torch.autograd.grad((x * x).sum(), x, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), x)
    for t, shape in ((x.grad, (5, 7)), (w.grad, (7, 3)), (g, (5, 7)), (h, (5, 7))):
        assert t.is_meta and t.shape == shape


def test_modules_are_made_without_data(torch):
    nn = torch.nn
    state = torch.get_rng_state()
    layers = [
        nn.Linear(3, 4, device="meta"),
        nn.Conv2d(3, 4, 3, device="meta"),
        nn.BatchNorm2d(4, device="meta"),
        nn.LSTM(3, 4, device="meta"),
        nn.Embedding(5, 3, device="meta"),
        nn.TransformerEncoderLayer(8, 2, 16, device="meta"),
    ]
    with torch.device("meta"):
        layers.append(nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4)))
    assert torch.equal(state, torch.get_rng_state()), "no random numbers are drawn"
    for layer in layers:
        assert all(t.is_meta for t in (*layer.parameters(), *layer.buffers()))
        assert all(isinstance(p, nn.Parameter) and p.requires_grad and p.is_leaf for p in layer.parameters())


def test_the_default_device(torch):
    with torch.device("meta"):
        assert torch.ones(2).is_meta and torch.tensor([1.0]).is_meta and torch.rand(2).is_meta
        assert not torch.ones(2, device="cpu").is_meta
        assert str(torch.get_default_device()) == "meta"
        with torch.device("cpu"):
            assert not torch.ones(2).is_meta
        assert torch.ones(2).is_meta
    assert not torch.ones(2).is_meta
    torch.set_default_device("meta")
    try:
        assert torch.zeros(2).is_meta and str(torch.get_default_device()) == "meta"
        with torch.device("cpu"):
            assert not torch.zeros(2).is_meta
    finally:
        torch.set_default_device(None)
    assert not torch.zeros(2).is_meta and str(torch.get_default_device()) == "cpu"


def test_modules_change_devices(torch):
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    values = copy.deepcopy(net.state_dict())
    before = net[0].weight
    net.to("meta")
    assert net[0].weight.is_meta and net[1].running_mean.is_meta and not before.is_meta
    with pytest.raises(NotImplementedError, match="use torch.nn.Module.to_empty"):
        net.to("cpu")
    with pytest.raises(RuntimeError, match="Cannot copy out of meta tensor; no data!"):
        torch.nn.Linear(2, 3).load_state_dict(torch.nn.Linear(2, 3, device="meta").state_dict())
    other = copy.deepcopy(net)
    assert other[0].weight.is_meta and isinstance(other[0].weight, torch.nn.Parameter)
    other.load_state_dict(values, assign=True)
    assert not any(t.is_meta for t in other.state_dict().values())
    assert torch.equal(other[0].weight, values["0.weight"]) and isinstance(other[0].weight, torch.nn.Parameter)
    net.to_empty(device="cpu")
    assert not any(t.is_meta for t in net.state_dict().values())
    net.load_state_dict(values)
    assert torch.equal(net[0].weight, values["0.weight"])


def test_skip_init_draws_no_random_numbers(torch):
    state = torch.get_rng_state()
    layer = torch.nn.utils.skip_init(torch.nn.Linear, 2, 3)
    assert layer.weight.shape == (3, 2) and not layer.weight.is_meta and torch.equal(state, torch.get_rng_state())
    assert torch.nn.utils.skip_init(torch.nn.Linear, 2, 3, device="meta").weight.is_meta


def test_data_of_another_device_cannot_be_set(torch):
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        torch.ones(2).data = meta(torch, 2)


def test_tensors_are_swapped(torch):
    a, b = torch.ones(2), meta(torch, 3)
    a.tag = "a"
    torch.utils.swap_tensors(a, b)
    assert a.is_meta and a.shape == (3,) and not hasattr(a, "tag")
    assert b.tolist() == [1, 1] and b.tag == "a" and (b + 1).tolist() == [2, 2]


def test_copies_and_files(torch):
    x = meta(torch, 4, 3, requires_grad=True)
    for y in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert geometry(y) == geometry(x) and y.requires_grad
    file = io.BytesIO()
    torch.save({"x": x, "p": torch.nn.Parameter(meta(torch, 2))}, file)
    file.seek(0)
    found = torch.load(file)
    assert geometry(found["x"]) == geometry(x) and isinstance(found["p"], torch.nn.Parameter) and found["p"].is_meta


def test_writes_and_out(torch):
    x = meta(torch, 2, 3)
    assert x.add_(1) is x and x._version == 1
    x[0] = 5.0
    x[1, 2] = torch.tensor(1.0)
    assert x._version == 3
    out = meta(torch, 0)
    assert torch.add(x, x, out=out) is out and out.shape == (2, 3)
    y = meta(torch, 2, 3)
    assert y.resize_(4, 5).shape == (4, 5)
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        meta(torch, 2, 1).add_(meta(torch, 2, 3))


def test_random_writes_draw_nothing(torch):
    state = torch.get_rng_state()
    x = meta(torch, 3)
    for write in (x.normal_, x.uniform_, x.bernoulli_):
        write()
    torch.nn.init.xavier_uniform_(meta(torch, 3, 3))
    torch.nn.functional.dropout(x, 0.5)
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW"])
def test_training_steps_run(torch, name):
    net = torch.nn.Linear(3, 4, device="meta")
    optimizer = getattr(torch.optim, name)(net.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        net(meta(torch, 5, 3)).pow(2).sum().backward()
        assert torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0).is_meta
        optimizer.step()
    assert all(p.is_meta and p.grad.is_meta for p in net.parameters())


def test_an_operator_of_a_library_runs_its_fake_function(torch):
    from uuid import uuid4

    name = f"mine::f{uuid4().hex[:8]}"

    @torch.library.custom_op(name, mutates_args=())
    def doubled(x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, x])

    with pytest.raises(RuntimeError, match="no fake impl"):
        doubled(meta(torch, 2))

    @doubled.register_fake
    def _(x):
        return x.new_empty(2 * x.shape[0])

    assert geometry(doubled(meta(torch, 2)))[0] == (4,) and doubled(meta(torch, 2)).is_meta


def test_the_type_of_a_meta_tensor_makes_ordinary_tensors(torch):
    """accelerate gives an offloaded parameter its values so."""
    values = torch.ones(2)
    parameter = torch.nn.Parameter(torch.empty(2, device="meta"))
    found = type(parameter)(values, requires_grad=False)
    assert found.device.type == "cpu" and found.tolist() == [1, 1] and type(found) is torch.nn.Parameter
    assert type(found.to("meta"))(values).to("cpu").tolist() == [1, 1]
    kind = type(torch.empty(2, device="meta"))
    assert type(kind([3.0])) is torch.Tensor and kind([3.0]).tolist() == [3]
    assert values.as_subclass(kind).tolist() == [1, 1]
    assert type(parameter)(torch.empty(3, device="meta")).is_meta
