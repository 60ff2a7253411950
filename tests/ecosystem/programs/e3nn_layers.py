"""Equivariant layers: irreps, spherical harmonics, tensor products, a gated network, trained."""

import torch
from e3nn import nn as enn, o3

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
irr = o3.Irreps("4x0e + 2x1o + 1x2e")
print(irr, irr.dim, o3.Irreps("1o") * 2)
v = torch.randn(5, 3)
print(o3.spherical_harmonics([0, 1, 2, 3], v, True, "component").double().abs().sum().item())
print(o3.wigner_3j(1, 1, 2).abs().sum().item(), o3.rand_matrix().shape)
R = o3.matrix_x(torch.tensor(0.3)) @ o3.matrix_y(torch.tensor(0.5))
D = irr.D_from_matrix(R)
print(D.abs().sum().item())
tp = o3.FullyConnectedTensorProduct(irr, "1o + 2e", "3x0e + 2x1o")
lin = o3.Linear(irr, "5x0e + 1x1o")
gate = enn.Gate("5x0e", [torch.tanh], "2x0e", [torch.sigmoid], "2x1o")
print(gate.irreps_in, gate.irreps_out)
net = o3.FullyConnectedTensorProduct(irr, "1o + 2e", gate.irreps_in)
head = o3.Linear(gate.irreps_out, "1x0e")
params = [*tp.parameters(), *lin.parameters(), *net.parameters(), *head.parameters()]
x = irr.randn(6, -1)
y = o3.Irreps("1o + 2e").randn(6, -1)
t = torch.randn(6, 1)
print(tp(x, y).shape, tp(x, y).abs().sum().item(), lin(x).abs().sum().item())
opt = torch.optim.Adam([*net.parameters(), *head.parameters()], 0.05)
for step in range(4):
    loss = (head(gate(net(x, y))) - t).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item(), net.weight.grad.norm().item())
bn = enn.BatchNorm(irr)
print(
    bn(x).abs().sum().item(),
    enn.NormActivation(irr, torch.sigmoid)(x).abs().sum().item(),
    enn.Dropout(irr, 0.5)(x).shape,
)
err = (
    (
        o3.Irreps(tp.irreps_out).D_from_matrix(R) @ tp(x, y).T
        - tp(x @ D.T, y @ o3.Irreps("1o + 2e").D_from_matrix(R).T).T
    )
    .abs()
    .max()
)
print("equivariant", err.item() < 1e-5)
print(
    o3.ToS2Grid(2, 6)(torch.randn(9)).abs().sum().item(),
    enn.FullyConnectedNet([3, 8, 2], torch.relu)(v).abs().sum().item(),
)
