"""The first gradient: Q = 3 a^3 - b^2, its derivatives at a = 2 and b = 6, and the graph that gave them.

Every line works with `import torch` in place of the import below.
"""

import gradloom as torch

a = torch.tensor(2.0, requires_grad=True)
b = torch.tensor(6.0, requires_grad=True)
Q = 3 * a**3 - b**2

# dQ/da = 9 a^2 and dQ/db = -2 b, added to the .grad of the leaves.
Q.backward(gradient=torch.tensor(1.0))
print("a.grad =", a.grad.item(), " b.grad =", b.grad.item())

# A backward pass gives the saved values back, so a second one over the same graph is refused.
try:
    Q.backward(gradient=torch.tensor(1.0))
except RuntimeError as error:
    print("a second backward:", str(error).partition(" (")[0])

# The same derivatives as return values; create_graph makes them differentiable in turn.
Q = 3 * a**3 - b**2
dQ_da, dQ_db = torch.autograd.grad(Q, [a, b], create_graph=True)
(d2Q_da2,) = torch.autograd.grad(dQ_da, a)
print("dQ/da =", dQ_da.item(), " dQ/db =", dQ_db.item(), " d2Q/da2 =", d2Q_da2.item())


def show(node, depth=0):
    """Print the graph below a node: each operator's backward node, and AccumulateGrad for the leaves."""
    print("  " * depth + (node.name() if node is not None else "no gradient needed"))
    for below, _ in node.next_functions if node is not None else ():
        show(below, depth + 1)


show(Q.grad_fn)
