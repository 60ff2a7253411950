"""The conjugate bit and the negative bit: views whose values are turned as they are read and written."""

from __future__ import annotations

import copy
import io
import pickle

import pytest


@pytest.fixture
def x(torch):
    return torch.tensor([1 + 2j, 3 - 1j, 0.5j])


def names(node):
    """The names of the nodes along the first edges."""
    found = []
    while node is not None:
        found.append(node.name().rpartition("::")[2])
        node = node.next_functions[0][0] if node.next_functions else None
    return found


def test_conj_is_a_view_of_the_same_memory_with_the_bit(torch, x):
    y = x.conj()
    assert y.is_conj() and not y.is_neg() and torch.is_conj(y)
    assert y._is_view() and y._base is x and y.data_ptr() == x.data_ptr()
    assert y.tolist() == [1 - 2j, 3 + 1j, -0.5j]
    assert not x.is_conj()


def test_conj_of_a_real_tensor_is_the_tensor(torch):
    real = torch.tensor([1.0, 2.0])
    assert real.conj() is real and real.resolve_conj() is real and real.resolve_neg() is real


def test_two_conjugations_are_none_and_still_a_view(torch, x):
    z = x.conj().conj()
    assert not z.is_conj() and z._base is x and z is not x
    assert z.tolist() == x.tolist()


def test_the_imaginary_part_of_a_conjugate_has_the_negative_bit(torch, x):
    part = x.conj().imag
    assert part.is_neg() and not part.is_conj() and part._base is x
    assert part.tolist() == [-2.0, 1.0, -0.5]
    assert part.data_ptr() == x.data_ptr() + x.element_size() // 2
    assert not x.conj().real.is_neg() and x.conj().real._base is x


def test_neg_view_negates_any_dtype_but_bool(torch):
    for dtype in (torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.int64):
        y = torch._neg_view(torch.ones(2, dtype=dtype))
        assert y.is_neg() and y.tolist() == [-1, -1] and y.dtype is dtype
    assert torch._neg_view(torch.ones(1, dtype=torch.uint8)).tolist() == [255]
    with pytest.raises(NotImplementedError, match="\"neg_cpu\" not implemented for 'Bool'"):
        torch._neg_view(torch.tensor([True])).tolist()


def test_both_bits_at_once(torch, x):
    y = torch._neg_view(x)
    assert (y.real.is_neg(), y.imag.is_neg(), torch.view_as_real(y).is_neg()) == (True, True, True)
    both = y.conj()
    assert both.is_neg() and both.is_conj() and both.tolist() == [-1 + 2j, -3 - 1j, 0.5j]
    assert not both.imag.is_neg() and both.real.is_neg()
    assert both.resolve_neg().tolist() == both.resolve_conj().tolist() == both.tolist()


def test_views_of_a_conjugate_keep_the_bit(torch, x):
    y = x.conj()
    matrix = torch.ones(2, 3, dtype=torch.complex64).conj()
    views = [
        y[1:],
        y[0],
        y.view(3, 1),
        y.expand(2, 3),
        y.unsqueeze(0),
        y.reshape(1, 3),
        y.as_strided((2,), (1,)),
        y.detach(),
        y.data,
        y.narrow(0, 1, 2),
        *y,
        *y.chunk(2),
        *y.unbind(),
        y.unfold(0, 2, 1),
        y.contiguous(),
        y.to(torch.complex64),
        y.cpu(),
        torch.as_tensor(y),
        torch.nn.Parameter(y),
        matrix.T,
        matrix[0],
        matrix.t(),
        matrix.permute(1, 0),
        matrix.transpose(0, 1),
        matrix.diagonal(),
        matrix.squeeze(),
        matrix.view(-1),
        matrix.flatten(),
        y[:0],
        y.narrow(0, 3, 0),
        *y[:0].split(1),
    ]
    assert all(v.is_conj() for v in views)


def test_results_of_computations_have_no_bits(torch, x):
    y, part = x.conj(), x.conj().imag
    results = [
        y * 2,
        y + y,
        y.sum(),
        -y,
        y.clone(),
        y[[0, 1]],
        y.flip(0),
        y.abs(),
        torch.cat([y, y]),
        y.resolve_conj(),
        y.conj_physical(),
        y.to(torch.complex128),
        torch.empty_like(y),
        torch.zeros_like(y),
        part + 1,
        part.clone(),
        part.resolve_neg(),
        part.contiguous(),
        torch._conj_copy(x),
        torch._neg_view_copy(x),
        *y.unsafe_split(2),
        *y.unsafe_chunk(2),
        y.expand(2, 3).contiguous(),
        torch.where(torch.tensor(True), y, y),
    ]
    assert not any(r.is_conj() or r.is_neg() for r in results)
    assert (y * 2).tolist() == [2 - 4j, 6 + 2j, -1j]
    assert (part + 1).tolist() == [-1.0, 2.0, 0.5]


def test_resolve_conj_copies_only_where_the_bit_is_set(torch, x):
    assert x.resolve_conj() is x
    resolved = x.conj().resolve_conj()
    assert not resolved._is_view() and resolved.data_ptr() != x.data_ptr()


def test_mH_and_its_kin_are_conjugate_views(torch):
    m = torch.tensor([[1 + 2j, 3 - 1j], [0.5j, 1]])
    for y in (m.mH, m.H, m.adjoint(), torch.adjoint(m)):
        assert y.is_conj() and y.stride() == (1, 2) and y.data_ptr() == m.data_ptr()
        assert y[0, 1].item() == -0.5j


def test_a_write_to_a_conjugate_changes_its_base(torch, x):
    y = x.conj()
    y.mul_(1j)
    assert y.is_conj() and y.tolist() == [2 + 1j, -1 + 3j, 0.5] and x.tolist() == [2 - 1j, -1 - 3j, 0.5]
    assert x._version == y._version == 1
    y[0] = 5 + 7j
    y.imag[1] = 9.0
    assert x.tolist()[:2] == [5 - 7j, -1 - 9j]
    y.fill_(2 + 3j)
    assert x.tolist() == [2 - 3j] * 3
    y.imag.fill_(4)
    assert x.tolist() == [2 - 4j] * 3
    y.zero_()
    assert x.abs().sum() == 0


def test_a_write_to_the_base_changes_the_conjugate(torch, x):
    y = x.conj()
    x.add_(1j)
    assert y.tolist() == [1 - 3j, 3, -1.5j]


def test_copying_a_conjugate_onto_its_own_base(torch, x):
    y = x.conj()
    x.copy_(y)
    assert x.tolist() == [1 - 2j, 3 + 1j, -0.5j] and y.tolist() == [1 + 2j, 3 - 1j, 0.5j]


def test_out_may_be_a_conjugate(torch, x):
    memory = torch.zeros(3, dtype=torch.complex64)
    torch.add(x, 1j, out=memory.conj())
    assert memory.tolist() == [1 - 3j, 3, -1.5j]
    parts = torch.zeros(3, dtype=torch.complex64)
    torch.mul(torch.ones(3), 2, out=parts.conj().imag)
    assert parts.tolist() == [-2j] * 3


def test_masks_and_indices_write_through_the_bits(torch):
    memory = torch.ones(3, dtype=torch.complex64)
    y = memory.conj()
    y[torch.tensor([True, False, False])] = 2j
    y.index_put_((torch.tensor([1]),), torch.tensor([3 + 3j]))
    y.masked_fill_(torch.tensor([False, False, True]), 5j)
    y += 1
    assert memory.tolist() == [1 - 2j, 4 - 3j, 1 - 5j]


def test_random_numbers_are_drawn_for_the_values(torch):
    plain, memory = torch.zeros(3, dtype=torch.complex64), torch.zeros(3, dtype=torch.complex64)
    for method in ("normal_", "uniform_"):
        torch.manual_seed(0)
        getattr(plain, method)()
        torch.manual_seed(0)
        y = getattr(memory.conj(), method)()
        assert y.tolist() == plain.tolist() == memory.conj().tolist()


def test_numpy_refuses_bits_unless_forced(torch, x):
    with pytest.raises(
        RuntimeError,
        match=r"Can't call numpy\(\) on Tensor that has conjugate bit set. Use "
        r"tensor.resolve_conj\(\).numpy\(\) instead",
    ):
        x.conj().numpy()
    with pytest.raises(RuntimeError, match=r"negative bit set. Use tensor.resolve_neg\(\).numpy\(\) instead"):
        x.conj().imag.numpy()
    with pytest.raises(RuntimeError, match="conjugate bit set"):
        x.conj().__array__()
    assert x.conj().numpy(force=True).tolist() == x.conj().tolist()
    assert x.conj().imag.numpy(force=True).tolist() == [-2.0, 1.0, -0.5]


def test_what_reads_memory_refuses_bits(torch, x):
    with pytest.raises(RuntimeError, match="view_as_real doesn't work on unresolved conjugated tensors"):
        torch.view_as_real(x.conj())
    for dtype in (torch.float32, torch.complex64):
        with pytest.raises(RuntimeError, match="not supported for conjugate view tensors when converting"):
            x.conj().view(dtype)
    with pytest.raises(RuntimeError, match="not supported for tensors with negative bit set"):
        x.conj().imag.view(torch.int32)
    with pytest.raises(BufferError, match="conjugate bit set"):
        x.conj().__dlpack__()


def test_numbers_and_text_are_of_the_values(torch, x):
    y = x.conj()
    assert y[0].item() == complex(y[0]) == 1 - 2j and bool(y[2])
    assert repr(y) == "tensor([1.-2.0000j, 3.+1.0000j, 0.-0.5000j])"
    assert repr(y.imag) == "tensor([-2.0000,  1.0000, -0.5000])"
    assert torch.equal(y, y.resolve_conj()) and not torch.equal(y, x) and torch.allclose(y, x.conj_physical())


def test_pickles_and_files_keep_bits_and_sharing(torch, x):
    y = x.conj()
    assert copy.copy(y).is_conj() and copy.copy(y).tolist() == y.tolist()
    again = pickle.loads(pickle.dumps(y))
    assert again.is_conj() and again.tolist() == y.tolist()
    file = io.BytesIO()
    torch.save({"x": x, "y": y, "imag": y.imag.clone()}, file)
    torch.save({"x": x, "y": y}, file := io.BytesIO())
    file.seek(0)
    loaded = torch.load(file)
    assert loaded["y"].is_conj() and loaded["x"].data_ptr() == loaded["y"].data_ptr()
    assert loaded["y"].tolist() == y.tolist()
    torch.save(y.imag, file := io.BytesIO())
    file.seek(0)
    loaded = torch.load(file)
    assert loaded.is_neg() and loaded.tolist() == y.imag.tolist()


def test_deepcopy_resolves(torch, x):
    found = copy.deepcopy(x.conj())
    assert not found.is_conj() and found.tolist() == x.conj().tolist()


def test_set_and_resize_keep_the_tensors_own_bits(torch, x):
    y = torch.ones(3, dtype=torch.complex64).conj()
    assert y.set_(x).is_conj() and y.tolist() == x.conj().tolist()
    plain = torch.ones(3, dtype=torch.complex64)
    assert not plain.set_(x.conj()).is_conj() and plain.tolist() == x.tolist()
    assert y.resize_(4).is_conj() and y[:3].tolist() == x.conj().tolist()


def test_graphs_have_the_nodes_of_the_views(torch):
    g = torch.tensor([[1 + 2j, 3 - 1j], [1, 2]], requires_grad=True)
    leaf = "AccumulateGrad"
    conj = g.conj()
    assert names(conj.grad_fn) == ["ConjBackward0", leaf]
    assert names(conj.imag.grad_fn) == [
        "SelectBackward0",
        "NegViewBackward0",
        "ViewAsRealBackward0",
        "ConjBackward0",
        "ConjBackward0",
        leaf,
    ]
    assert names(conj.real.grad_fn) == [
        "SelectBackward0",
        "ViewAsRealBackward0",
        "ConjBackward0",
        "ConjBackward0",
        leaf,
    ]
    assert names(g.mH.grad_fn) == ["ConjBackward0", "TransposeBackward0", leaf]
    assert names(conj.resolve_conj().grad_fn) == ["CloneBackward0", "ConjBackward0", leaf]
    assert names(conj.reshape(-1).grad_fn) == ["ViewBackward0", "ConjBackward0", leaf]
    assert names(g.mH.reshape(-1).grad_fn) == [
        "UnsafeViewBackward0",
        "CloneBackward0",
        "ConjBackward0",
        "TransposeBackward0",
        leaf,
    ]
    assert names(torch._neg_view(g).grad_fn) == ["NegViewBackward0", leaf]
    assert names(g.conj_physical().grad_fn) == ["ConjPhysicalBackward0", leaf]
    assert (g * conj).grad_fn._saved_other.is_conj()


def test_gradients_flow_through_written_conjugates(torch):
    a = torch.tensor([1 + 2j, 3 - 1j], requires_grad=True)
    b = a * 1
    c = b.conj()
    c.mul_(1j)
    assert names(b.grad_fn)[0] == "CopySlices" and names(c.grad_fn)[0] == "ConjBackward0"
    (found,) = torch.autograd.grad(b.abs().sum(), a)
    assert torch.allclose(found, a.detach() / a.detach().abs())
    b = a * 1
    c = b.conj()
    b.mul_(2j)
    (found,) = torch.autograd.grad(c.imag.sum(), a)
    assert torch.allclose(found, torch.tensor([-2 + 0j, -2 + 0j]))


def test_gradients_flow_through_a_written_imaginary_part(torch):
    a = torch.tensor([1 + 2j, 3 - 1j], requires_grad=True)
    b = a * 1
    b.conj().imag.mul_(torch.tensor([2.0, 3.0]))
    (found,) = torch.autograd.grad(b.imag.sum() + b.real.sum(), a)
    assert found.tolist() == [1 + 2j, 1 + 3j]


def test_a_conjugate_made_without_grad_mode_may_not_be_written(torch):
    a = torch.tensor([1 + 2j], requires_grad=True) * 1
    with torch.no_grad():
        c = a.conj()
    with pytest.raises(RuntimeError, match="A view was created in no_grad mode and is being modified inplace"):
        c.mul_(2)
    leaf = torch.tensor([1 + 2j], requires_grad=True)
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad is being used in an in-place"):
        leaf.conj().mul_(2)


def test_a_leaf_keeps_a_conjugated_gradient(torch):
    g = torch.tensor([1 + 2j, 3], requires_grad=True)
    w = torch.tensor([1 + 2j, 3])
    (g.conj() * w).abs().sum().backward()
    assert g.grad.is_conj()
    once = g.grad.tolist()
    (g.conj() * w).abs().sum().backward()
    assert g.grad.is_conj() and torch.allclose(g.grad, 2 * torch.tensor(once))
    expanded = torch.tensor([1 + 2j, 3], requires_grad=True)
    expanded.conj().sum().abs().backward()
    assert not expanded.grad.is_conj()


def test_checks_of_derivatives_pass_through_bits(torch):
    def f(t):
        return torch._neg_view(t).conj() * t.conj().imag

    z = torch.tensor([1j, 2.0], dtype=torch.complex128, requires_grad=True)
    assert torch.autograd.gradcheck(f, z, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(f, z)


def test_tangents_of_conjugates_are_conjugate_views(torch):
    forward = torch.autograd.forward_ad
    with forward.dual_level():
        dual = forward.make_dual(torch.tensor([1 + 2j, 3]), torch.tensor([1j, 2]))
        c = dual.conj()
        tangent = forward.unpack_dual(c).tangent
        assert tangent.is_conj() and tangent.tolist() == [-1j, 2]
        assert forward.unpack_dual(c.imag).tangent.tolist() == [-1.0, 0.0]
        dual.mul_(2)
        assert forward.unpack_dual(c).tangent.tolist() == [-2j, 4]


def test_writes_to_a_conjugate_carry_tangents_to_the_base(torch):
    forward = torch.autograd.forward_ad
    with forward.dual_level():
        base = torch.tensor([1 + 2j, 3])
        base.conj().copy_(forward.make_dual(torch.tensor([1 + 2j, 3]), torch.tensor([1j, 2])))
        primal, tangent = forward.unpack_dual(base)
        assert primal.tolist() == [1 - 2j, 3] and tangent.tolist() == [-1j, 2]


def test_vmap_sees_the_bits_of_its_examples(torch):
    batch = torch.tensor([[1j, 2], [3, 4j]])
    seen = []

    def f(t):
        seen.append(t.conj().is_conj())
        return t.conj()

    found = torch.func.vmap(f)(batch)
    assert seen == [True] and found.is_conj() and found.tolist() == batch.conj().tolist()


def test_hooks_and_pack_hooks_see_the_bits(torch):
    seen = []
    a = torch.tensor([1 + 2j, 3 - 1j], requires_grad=True)

    def pack(t):
        seen.append((t.is_conj(), t.tolist()))
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        (a.conj() * a.conj()).sum().abs().backward()
    assert seen[0] == (True, [1 - 2j, 3 + 1j])
    hooked = []
    a.register_hook(lambda g: hooked.append(g.is_conj()))
    (a.conj() * 2j).sum().abs().backward()
    assert hooked == [True]


def test_sgd_follows_conjugated_gradients(torch):
    a, b = (torch.tensor([1 + 2j, 3 - 1j], requires_grad=True) for _ in range(2))
    for parameter, conjugate in ((a, torch.conj), (b, torch.conj_physical)):
        optimizer = torch.optim.SGD([parameter], lr=0.1, momentum=0.9)
        for _ in range(3):
            optimizer.zero_grad()
            (conjugate(parameter) * torch.tensor([1 + 2j, 3 - 1j])).abs().sum().backward()
            optimizer.step()
    assert torch.allclose(a, b)


def test_every_optimizer_takes_gradients_and_parameters_with_bits(gradloom):
    torch = gradloom
    for make in (
        torch.optim.Adam,
        torch.optim.AdamW,
        torch.optim.Adagrad,
        torch.optim.RMSprop,
        torch.optim.Adadelta,
        torch.optim.ASGD,
        torch.optim.Rprop,
    ):
        plain = torch.tensor([1 + 2j, 3 - 1j], requires_grad=True)
        turned = torch.tensor([1 - 2j, 3 + 1j]).conj().requires_grad_()
        for parameter, conjugate in ((plain, torch.conj_physical), (turned, torch.conj)):
            optimizer = make([parameter], lr=0.1)
            for _ in range(3):
                optimizer.zero_grad()
                (conjugate(parameter) * torch.tensor([1 + 2j, 3 - 1j])).abs().sum().backward()
                optimizer.step()
        assert torch.allclose(plain, turned), make.__name__
        assert torch.nn.utils.clip_grad_norm_([turned], 0.1) > 0 and turned.is_conj()
