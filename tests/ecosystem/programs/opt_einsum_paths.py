"""opt_einsum: contractions of tensors by its paths, with gradients, and expressions with constants."""

import opt_einsum
import torch

torch.manual_seed(0)
a, b, c = (torch.randn(4, 5, 6), torch.randn(6, 7), torch.randn(7, 4, 3))
for tensor in (a, b, c):
    tensor.requires_grad_()
for optimize in ("greedy", "optimal", "auto"):
    result = opt_einsum.contract("abc,cd,dae->be", a, b, c, optimize=optimize)
    gradients = torch.autograd.grad(result.square().sum(), (a, b, c))
    print(optimize, result.sum().item(), *[gradient.norm().item() for gradient in gradients])
path, info = opt_einsum.contract_path("abc,cd,dae->be", a, b, c)
print("path", path, info.largest_intermediate)
expression = opt_einsum.contract_expression("ij,jk,kl->il", (8, 4), torch.randn(4, 5), (5, 8), constants=[1])
print("expression", expression(torch.ones(8, 4), torch.ones(5, 8)).mean().item())
torch.backends.opt_einsum.strategy = "optimal"
print("torch", torch.einsum("abc,cd,dae->be", a, b, c).norm().item())
ones = opt_einsum.contract("i,i->", torch.arange(4.0), torch.ones(4), backend="torch")
print("inner", ones.item())
