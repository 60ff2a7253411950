"""Shape and creation operators against PyTorch: values, dtypes, strides, offsets, views, graphs, errors, gradients."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
from .side_by_side import assert_same, assert_same_gradients

# Separated by two spaces or line ends.
RESULTS = """
x.view(12)  x.view(2, 6)  x.view((4, -1))  x.view(-1)  v.view(2, 2)  s.view(1, 1)  e.view(3, 0)
e.view(-1, 3)  x.view_as(x)  x.reshape(12)  x.t().reshape(12)  x.t().reshape(4, 3)  x.reshape(2, -1)
x.reshape_as(x)  N.reshape(24)  N.reshape(4, 6)  x.flatten()  c.flatten(1)  c.flatten(0, 1)  x.t().flatten()
v.flatten()  s.flatten()  x.ravel()  x.t().ravel()  x.unflatten(1, (2, 2))  x.unflatten(1, (-1, 2))
L.unflatten(x, 0, (3, 1))  x.expand(2, 3, 4)  x.expand(-1, -1)  o.expand(2, 3, 4)  o.expand(-1, -1, 2)
x.expand_as(c)  v.expand(3, 4)  s.expand(2, 2)  x.broadcast_to((2, 3, 4))  L.broadcast_tensors(x, v, s)
L.broadcast_shapes((2, 1), (3,), 1)  L.broadcast_shapes()  x.permute(1, 0)  c.permute(2, 0, 1)
c.permute(-1, 0, 1)  c.permute((0, 2, 1))  x.transpose(0, 1)  c.transpose(-1, 0)  x.transpose(0, 0)
s.transpose(0, -1)  x.t()  v.t()  s.t()  x.T  x.mT  x.H  x.mH  x.adjoint()  c.mT  c.T  s.T  s.mT
x.swapaxes(0, 1)  x.swapdims(0, 1)  c.movedim(0, 2)  c.movedim((0, 1), (1, 2))  c.moveaxis(-1, 0)
s.movedim(0, 0)  o.squeeze()  o.squeeze(0)  o.squeeze(1)  o.squeeze((0, 2))  o.squeeze(-1)  s.squeeze(0)
s.squeeze()  o.squeeze((0, 1))  x.unsqueeze(0)  x.unsqueeze(-1)  x.unsqueeze(1)  s.unsqueeze(0)
x.select(0, 1)  x.select(1, -1)  v.select(0, 2)  c.select(-1, 0)  L.select(x, 0, 0)  x.narrow(0, 1, 2)
x.narrow(1, -2, 1)  x.narrow(0, L.tensor(1), 1)  x.narrow_copy(1, 1, 2)  x.unfold(0, 2, 1)
x.unfold(1, 2, 2)  v.unfold(0, 4, 3)  s.unfold(0, 1, 1)  c.unfold(1, 2, 1)  x.t().unfold(0, 3, 1)
v.unfold(0, 0, 1)  x.diagonal()  x.diagonal(1)  x.diagonal(-1)  c.diagonal(0, 1, 2)  c.diagonal(1, 0, 2)
x.as_strided((2, 2), (1, 2))  x.as_strided((2,), (3,), 1)  x[1:].as_strided((2, 2), (1, 1))
x.t().as_strided((3,), (4,))  x.unbind()  x.unbind(1)  v.unbind()  x.split(2)  x.split(3, 1)
x.split([1, 2])  x.split((1, 3), 1)  x.split(5)  e.split(1)  x.split_with_sizes((1, 2))  x.chunk(2)
x.chunk(3, 1)  x.chunk(9)  e.chunk(2)  x.tensor_split(2)  x.tensor_split(3, 1)  x.tensor_split((1, 2))
x.tensor_split((1, 3), 1)  x.tensor_split(L.tensor(2))  x.tensor_split(L.tensor([1]))
x.tensor_split((-1,), 1)  x.hsplit(2)  x.hsplit((1,))  v.hsplit(2)  x.vsplit(3)  x.vsplit((1, 2))
c.dsplit(2)  c.dsplit((1,))  x.view(L.int64)  F.view(L.int16)  F.view(L.uint8)  I.view(L.int32)
I.view(L.float64)  F.view(L.int32)  Z.view(L.float64)  x.clone()  x.t().clone()  N.clone()
N.clone(memory_format=L.contiguous_format)  x.expand(2, 3, 4).clone()
p.clone(memory_format=L.channels_last)  p.contiguous(memory_format=L.channels_last)  x.contiguous()
x.t().contiguous()  x.double()  x.float()  x.half()  x.bfloat16()  x.int()  x.long()  x.bool()  I.double()
I.byte()  I.char()  I.short()  x.to(L.float32)  x.to(dtype=L.float32)  x.to("cpu")  x.to("cpu", L.float32)
x.to(F)  x.to(x, copy=True)  x.to(L.float64, copy=True)  x.to(device="cpu", dtype=L.int32)
x.to(L.complex64)  Z.real.to(L.complex128)  x.to(L.float32, memory_format=L.preserve_format)
x.t().to(L.float32)  N.to(L.float32)  x.type_as(F)  x.type(L.float32)  x.type()  x.cpu()
x.type("torch.IntTensor")  F.cdouble()  F.cfloat()  x.detach()  x.view(12).detach()  (x * 2).detach_()
x.sum_to_size(1, 4)  x.sum_to_size(4)  c.sum_to_size(3, 1)  x.sum_to_size(3, 4)  L.cat([x, x])
L.cat([x, x], 1)  L.cat((x, x, x), -1)  L.cat([v, v])  L.cat([x, I])  L.cat([F, I])  L.cat([B, I.view(12)])
L.cat([L.zeros(0), x])  L.cat([e, e])  L.cat([p, p])  L.cat([x.t(), x.t()])  L.concat([x, x])
L.concatenate([x, x], 1)  L.cat([p.contiguous(memory_format=L.channels_last)] * 2)  L.stack([x, x])
L.stack([x, x], 1)  L.stack([x, x], -1)  L.stack([s, s])  L.stack([F, F.int()])  L.hstack([x, x])
L.hstack([v, v])  L.hstack([s, s])  L.vstack([v, v])  L.vstack([x, v])  L.dstack([v, v])  L.dstack([x, x])
L.column_stack([v, v])  L.column_stack([x, v[:3]])  L.row_stack([v, v])  L.block_diag(x, v)
L.block_diag(x, I, s)  L.atleast_1d(s)  L.atleast_1d(v)  L.atleast_2d(s)  L.atleast_2d(v)  L.atleast_3d(v)
L.atleast_3d(s)  L.atleast_3d(x)  L.atleast_2d(s, v)  L.atleast_1d([s, v])  L.select_scatter(x, v, 0, 1)
L.slice_scatter(x, x[1:], 0, 1)  x.slice_scatter(x[:, :2], 1, 0, 4, 2)  L.diagonal_scatter(q, v[:3])
L.as_strided_scatter(x, v, (4,), (1,))  x.as_strided_scatter(q, (3, 3), (1, 4), 1)  x.repeat(2, 1)
x.repeat(2, 3, 1)  v.repeat(3)  s.repeat(2)  x.repeat(0, 1)  x.tile(2)  x.tile((2, 1))  x.tile(1, 2, 1)
x.repeat_interleave(2)  x.repeat_interleave(2, dim=0)  x.repeat_interleave(2, 1)
L.repeat_interleave(L.tensor([1, 0, 2]))  x.roll(1)  x.roll(1, 0)  x.roll((1, -1), (0, 1))  x.roll(5, 1)
s.roll(1)  x.flip(0)  x.flip((0, 1))  x.flip(())  x.t().flip(0)  x.fliplr()  x.flipud()  v.flipud()
x.rot90()  x.rot90(2)  x.rot90(0)  x.rot90(-1)  c.rot90(1, (0, 2))  c.rot90(3, (2, 1))  x.tril()  x.tril(1)
x.triu(-1)  c.triu()  I.tril()  (B[:, None] | B).triu()  x.diag()  x.diag(1)  v.diag()  v.diag(-1)
v.diag_embed()  x.diag_embed(1)  x.diag_embed(0, 0, 2)  x.diagflat()  v.diagflat(1)  L.meshgrid(v, v)
L.meshgrid(v, v[:2], indexing="xy")  L.meshgrid(v, s, indexing="ij")  L.meshgrid([v, v, v[:2]])
L.cartesian_prod(v, v[:2])  L.cartesian_prod(v)  L.constant_pad_nd(x, (1, 1))
L.constant_pad_nd(x, (1, -1, 0, 2), 3)  L.constant_pad_nd(x, (-1, -1))  L.constant_pad_nd(I, (1, 0), 2)
L.pixel_shuffle(p, 2)  L.pixel_unshuffle(p, 2)  L.channel_shuffle(p, 2)  L.pixel_shuffle(p[0], 2)
L.view_copy(x, (12,))  L.t_copy(x)  L.expand_copy(x, (2, 3, 4))  L.select_copy(x, 0, 1)  L.unbind_copy(x)
L.split_copy(x, 2)  L.squeeze_copy(o)  L.squeeze_copy(o, 0)  L.diagonal_copy(x)  L.unfold_copy(x, 0, 2, 1)
L.as_strided_copy(x, (2,), (1,))  L.alias_copy(x)  L.permute_copy(x, (1, 0))  L.transpose_copy(x, 0, 1)
L.unsqueeze_copy(x, 0)  L.slice_copy(x, 0, 1)  L.split_with_sizes_copy(x, (1, 2))  (x * 1).t_()
(x * 1).transpose_(0, 1)  (o * 1).squeeze_()  (o * 1).squeeze_(0)  (x * 1).unsqueeze_(0)
(x * 1).swapaxes_(0, 1)  (x * 1).as_strided_((2,), (1,))  (x * 1).tril_()  (x * 1).triu_(1)
(x * 1).view(12).unsqueeze_(1)  (x * 1).copy_(v)  (x * 1).copy_(I)  (I * 1).copy_(x)  (F * 1).copy_(1)
F.clone().resize_(2)  F.clone().resize_(2, 4).shape  F.clone().set_(I.float())
F.clone().set_(F, 1, (2,), (2,))  F.clone().set_()  F.clone().resize_as_(I[0, :2]).shape
"""

CREATION = """
L.zeros(2, 3)  L.zeros((2, 3))  L.zeros(2, dtype=L.int64)  L.zeros(())  L.zeros(0)
L.zeros([2], requires_grad=True)  L.ones(2, 3, dtype=L.complex64)  L.ones(2, device="cpu")
L.ones(size=(2,))  L.empty(2, 3).shape  L.empty(0, 2)
L.empty((2, 4, 3, 3), memory_format=L.channels_last).stride()  L.full((2, 2), 7)  L.full((2,), 1.5)
L.full((2,), True)  L.full((2,), 1j)  L.full((2,), 1.5, dtype=L.int64)  L.full((), 2.)
L.full((2,), -1, dtype=L.uint8)  L.zeros_like(x)  L.ones_like(x, dtype=L.int32)  L.full_like(x, 3)
L.full_like(I, 2.7)  L.empty_like(x).shape  L.zeros_like(x.t())  L.zeros_like(N)
L.zeros_like(x.expand(2, 3, 4))  L.zeros_like(p, memory_format=L.channels_last)
L.zeros_like(x, requires_grad=True)  L.zeros_like(x, memory_format=L.contiguous_format)
L.ones_like(N[:, 1:])  x.new_zeros(2)  x.new_zeros((2, 3))  x.new_ones(2, dtype=L.int8)  x.new_full((2,), 3)
x.new_empty(2, 1).shape  x.new_empty_strided((2, 3), (1, 2)).stride()  x.new_zeros(2, requires_grad=True)
I.new_full((2,), 1.5)  L.arange(5)  L.arange(5.)  L.arange(1, 4)  L.arange(1, 10, 3)  L.arange(0, 1, 0.25)
L.arange(5, 0, -2)  L.arange(0)  L.arange(1, 2.5)  L.arange(3, dtype=L.float16)
L.arange(0.5, 3, dtype=L.int64)  L.arange(1, 10, 2.5, dtype=L.int32)  L.arange(True)  L.arange(end=3)
L.arange(start=1, end=3)  L.arange(0, 3, step=2)  L.arange(L.tensor(3))  L.arange(0, 1, 0.1)
L.arange(0, 1, 0.1, dtype=L.float64)  L.arange(-1, 1, 0.3)  L.arange(2**53, 2**53 + 3)  L.linspace(0, 1, 5)
L.linspace(0, 1, 1)  L.linspace(0, 1, 0)  L.linspace(-3, 10, 7)  L.linspace(0, 10, 5, dtype=L.int64)
L.linspace(0, 1, 4, dtype=L.float64)  L.linspace(0, 1j, 3)  L.linspace(L.tensor(0.), 1, 3)
L.linspace(0, L.tensor(2.), 3)  L.linspace(s, s, 2)  L.linspace(3, 3, 3)  L.linspace(1, 0, 4)
L.logspace(0, 2, 3)  L.logspace(0, 2, 3, base=2)  L.logspace(0, 2, 3, 2, dtype=L.int32)
L.logspace(-1, 1, 4, dtype=L.float64)  L.logspace(L.tensor(0.), 1, 2)  L.logspace(0, 1, 1)  L.eye(3)
L.eye(2, 3)  L.eye(2, dtype=L.int32)  L.eye(0)  L.eye(2, requires_grad=True)  L.scalar_tensor(3)
L.scalar_tensor(True)  L.scalar_tensor(2, dtype=L.int8)  L.tril_indices(3, 3)
L.triu_indices(2, 3, -1, dtype=L.int32)  L.tril_indices(3, 2, 1)  L.tril_indices(0, 3)  L.range(0, 3)
L.range(0, 2, 0.5)  L.empty_strided((2, 3), (1, 2)).stride()
L.empty_strided((2, 3), (4, 1), dtype=L.int8).dtype  L.empty_permuted((2, 3, 4), (0, 2, 1)).stride()
L.zeros(2, out=L.ones(2))  L.zeros(2, out=L.ones(3))  L.arange(5, out=L.zeros(5))
L.arange(5., out=L.zeros(5, dtype=L.int64))  L.arange(1, 3, out=L.zeros(0))  L.full((2,), 1, out=L.zeros(2))
L.eye(2, out=L.zeros(2, 2, dtype=L.int32))  L.linspace(0, 1, 3, out=L.zeros(3))
L.cat([F, F], out=L.zeros(0))  L.stack([F, F], out=L.zeros(2, 2, 3))  L.tril(F, out=L.zeros(2, 3))
L.diag(F, out=L.zeros(2))  L.hstack([F, F], out=L.zeros(0))  L.set_default_dtype(L.float32)
L.hann_window(5)  L.hann_window(5, False)  L.hann_window(0)  L.hann_window(1)
L.hamming_window(4, periodic=False, alpha=0.6, beta=0.4)  L.hamming_window(4, dtype=L.float64)
L.bartlett_window(5)  L.bartlett_window(5, False)  L.blackman_window(6)  L.kaiser_window(5)
L.kaiser_window(5, False, 3.0, dtype=L.float64)  L.hann_window(3, requires_grad=True)
L.signal.windows.gaussian(5, std=0.5)  L.signal.windows.exponential(5, center=1, sym=False)
L.signal.windows.cosine(4, requires_grad=True)  L.signal.windows.nuttall(1)
L.signal.windows.kaiser(4, beta=2, sym=False, dtype=L.float64)  L.signal.windows.hann(0)
L.signal.windows.bartlett(6, sym=False)
"""

ERRORS = """
x.unfold(0, 5, 1)  x.unfold(0, 1, 0)  x.unfold(0, -1, 1)  s.unfold(0, 2, 1)  x.diagonal(0, 0, 0)
v.diagonal()  x.movedim((0, 1), (0,))  x.movedim((0, 0), (0, 1))  x.unflatten(1, (3, 2))  x.unflatten(1, ())
x.unflatten(1, (-1, 3))  x.tensor_split(0)  s.tensor_split(2)  x.tensor_split(L.tensor([1.]))
x.tensor_split(L.tensor([[1]]))  x.hsplit(3)  s.hsplit(2)  x.vsplit(2)  v.vsplit(2)  x.dsplit(2)
x.roll((1, 2), 0)  x.roll(())  x.roll((1, 2))  s.roll(1, 0)  x.flip((0, 0))  v.fliplr()  s.flipud()
x.rot90(1, (0,))  x.rot90(1, (0, 0))  x.rot90(1, (0, 5))  v.rot90()  v.tril()  c.diag()
x.diag_embed(0, 0, 0)  x.diag_embed(0, 0, 9)  L.meshgrid(v, indexing="a")  L.meshgrid(v, I[0])
L.cartesian_prod(x)  L.block_diag(c)  L.hstack([])  L.constant_pad_nd(x, (1,))
L.constant_pad_nd(x, (1, 1, 1, 1, 1, 1))  L.pixel_shuffle(x, 2)  L.pixel_shuffle(c, 2)
L.pixel_shuffle(p, 0)  L.pixel_unshuffle(c, 2)  L.channel_shuffle(x, 2)  x.repeat(2)  x.repeat(2, -1)
x.repeat_interleave(-1)  L.repeat_interleave(L.tensor([1.5]))  F.view(L.float64)  F.t().view(L.int16)
F[:, :2].view(L.float64)  F[0, 0].view(L.float64)  x.select_scatter(x, 0, 1)  x.slice_scatter(x, 0, 0, 1)
x.diagonal_scatter(x)  x.as_strided((2,), (1, 1))  x.as_strided((2,), (-1,))  x.as_strided((20,), (1,))
x.as_strided((2,), (1,), -1)  x.broadcast_to((4, 4))  L.broadcast_tensors(x, x.t())
L.broadcast_shapes((2, 3), (3, 2))  L.broadcast_shapes((2,), 3)  x.sum_to_size(3)  x.narrow(0, 1, 3)
x.narrow(0, 4, 0)  x.narrow(0, -4, 0)  x.narrow(0, 0, -1)  x.select(0, 3)  x.select(2, 0)  s.select(0, 0)
x.permute(0, 0)  x.permute(0, 5)  x.expand(4, 4)  x.expand(-1, 3, 4)  x.expand(3, -2)  x.squeeze((0, 0))
x.unsqueeze(5)  x.split(-1)  x.split(0)  s.split(1)  x.split([1, 3])  x.split([1, -1, 3])  x.chunk(0)
s.chunk(1)  s.unbind()  L.cat([x, v])  L.cat([x, x[:, :2]])  L.cat([s, s])  L.cat([])  L.stack([])
L.stack([x, v])  L.cat([x], 5)  x.resize_(3)  x.flatten(1, 0)  x.flatten(5)  x.view(-1, -1)  x.view(-2)
e.view(-1, 0)  x.t().view(12)  x.reshape(7)  x.view(5)  v.mT  c.H  v.H  v.mH  v.adjoint()
F.copy_(L.ones(4))  F[0].copy_(L.ones(2, 1, 3))  c.t()  x.swapaxes(0, 3)
x.contiguous(memory_format=L.channels_last)  x.clone(memory_format=L.channels_last)
x.expand(2, 3, 4).detach_()  v.expand(3, 4).detach().add_(1)  x.transpose(0, 2)  x.copy_(x)  x.t_()
x.detach().view(12).t_()  L.zeros(2, dtype=L.int32, out=L.zeros(2))
L.zeros(2, dtype=L.int64, requires_grad=True)  L.zeros(-1)  L.full((2,), 300, dtype=L.uint8)
L.full((2,), 1j, dtype=L.float32)  L.arange(0, 5, -1)  L.arange(5, 0)  L.arange(0, 5, 0)
L.arange(0, float("inf"))  L.linspace(0, 1, -1)  L.eye(-1)  L.eye(2, -1)  L.scalar_tensor(1j)  L.ones(2, -3)
L.empty_strided((2,), (1, 2))  L.empty_strided((2,), (-1,))  L.empty_permuted((2, 3), (0, 0))  L.zeros("a")
L.arange()  L.tril_indices(-1, 2)  L.logspace(0, 1, -2)  (x * 1).unbind()[0].add_(1)
(x * 1).split(1)[0].mul_(2)  (x * 1).chunk(2)[1].add_(1)  L.hann_window(-1)  L.signal.windows.hann(-1)
L.signal.windows.gaussian(3, std=0)  L.signal.windows.hann(3, dtype=L.int32)
L.signal.windows.general_cosine(3, a=2)  L.signal.windows.exponential(3, center=1)
"""

SAME_GRADIENTS = """
x.view(12)  x.t().reshape(12)  c.flatten(1)  x.expand(2, 3, 4)  o.expand(2, 3, 4)
L.broadcast_tensors(x, v, s)  c.permute(2, 0, 1)  x.transpose(0, 1)  x.t()  c.movedim(0, 2)  o.squeeze()
o.squeeze(0)  o.squeeze((0, 2))  x.unsqueeze(1)  x.select(1, -1)  x.narrow(0, 1, 2)  x.narrow_copy(1, 1, 2)
x[::2]  x.unfold(0, 2, 1)  x.unfold(1, 2, 2)  s.unfold(0, 1, 1)  c.unfold(1, 2, 1)  x.diagonal(1)
c.diagonal(0, 1, 2)  x.as_strided((2, 2), (1, 2))  x.as_strided((3, 3), (1, 1))
x.as_strided((2, 3), (0, 1), 2)  x.t().as_strided((3, 2), (2, 2))
x.expand(2, 3, 4).as_strided((2, 3), (0, 1))  x[1:].as_strided((2, 2), (1, 1), 3)  x.unbind()
x.unbind(1)[1:]  x.split(2)  x.split([1, 2])[1:]  x.chunk(3, 1)  x.tensor_split(3, 1)  x.unsafe_split(2)[:1]
x.double()  x.float()  x.to(L.complex128)  L.cat([x, x * 2], 1)  L.cat([x, v.view(1, 4)])
L.cat([x.float(), x])  L.stack([x, x], 1)  L.hstack([s, v])  L.block_diag(x, v, s)
L.select_scatter(x, v, 0, 1)  x.slice_scatter(x[:, :2], 1, 0, 4, 2)  L.diagonal_scatter(q, v[:3])
x.repeat(2, 3, 1)  s.repeat(2)  x.tile(2)  x.repeat_interleave(2, 1)  x.roll((1, -1), (0, 1))  x.roll(1)
x.flip((0, 1))  x.rot90()  x.rot90(3)  x.tril(1)  c.triu()  x.diag(1)  v.diag(-1)  x.diag_embed(1)
x.diagflat()  L.meshgrid(v, v[:2], indexing="xy")  L.cartesian_prod(v, v[:2])
L.constant_pad_nd(x, (1, -1, 0, 2), 3)  L.pixel_shuffle(p, 2)  L.pixel_unshuffle(p, 2)
L.channel_shuffle(p, 2)  L.expand_copy(x, (2, 3, 4))  L.unbind_copy(x)  L.as_strided_copy(x, (3, 3), (1, 1))
L.diagonal_copy(x)  (x * 1).t_()  (x * 1).unsqueeze_(0)  (o * 1).squeeze_()  (x * 1).copy_(v)
(x * 1).tril_()  (x * 1).as_strided_((3, 3), (1, 1))  x.sum_to_size(1, 4)
"""


def expressions(text: str) -> list[str]:
    return [e.strip() for line in text.splitlines() for e in line.split("  ") if e.strip()]


@pytest.mark.parametrize("expression", expressions(RESULTS))
def test_results(expression):
    assert_same(expression)


@pytest.mark.parametrize("expression", expressions(CREATION))
def test_creation(expression):
    assert_same(expression)


@pytest.mark.parametrize("expression", expressions(ERRORS))
def test_errors(expression):
    assert_same(expression)


@pytest.mark.parametrize("expression", expressions(SAME_GRADIENTS))
def test_gradients(expression):
    assert_same_gradients(expression)
