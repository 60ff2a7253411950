"""Packages that take gradloom's tensors as they are, without `gradloom.as_torch`."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent

import pytest

PROGRAMS = {
    "einops knows the array API": """
        from einops.array_api import pack, rearrange, reduce, repeat, unpack
        x = torch.arange(24.0).reshape(2, 3, 4).requires_grad_()
        assert torch.equal(rearrange(x, "a b c -> b (a c)"), x.permute(1, 0, 2).reshape(3, 8))
        assert torch.equal(reduce(x, "a b c -> b", "max"), x.amax((0, 2)))
        assert repeat(x, "a b c -> a b c d", d=2).shape == (2, 3, 4, 2)
        packed, shapes = pack([x, x], "* b c")
        assert [tuple(part.shape) for part in unpack(packed, shapes, "* b c")] == [(2, 3, 4)] * 2
        reduce(x, "a b c -> ", "sum").backward()
        assert x.grad.unique().tolist() == [1.0]
        """,
    "einops, once it is told": """
        import gradloom.utils.array_packages
        from einops import einsum, rearrange, reduce, repeat
        x = torch.arange(24.0).reshape(2, 3, 4).requires_grad_()
        assert torch.equal(rearrange(x, "a b c -> b (a c)"), x.permute(1, 0, 2).reshape(3, 8))
        assert torch.equal(reduce(x, "a b c -> b", "max"), x.amax((0, 2)))
        assert repeat(x, "a b c -> a b c d", d=2).shape == (2, 3, 4, 2)
        einsum(x, x, "a b c, a d c -> b d").sum().backward()
        assert x.grad is not None and "torch" not in sys.modules
        """,
    "opt_einsum, once it is told": """
        import gradloom.utils.array_packages
        import numpy as np, opt_einsum
        shapes = ((3, 4), (4, 5), (5, 3))
        a, b, c = (torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in shapes)
        for equation in ("ij,jk,kl->il", "ij,jk,kl->li", "ij,jk,ki->"):
            found = opt_einsum.contract(equation, a, b, c)
            expected = np.einsum(equation, *(x.detach().numpy() for x in (a, b, c)))
            np.testing.assert_allclose(found.detach().numpy(), expected, rtol=1e-10, atol=1e-12)
        opt_einsum.contract_expression("ij,jk,kl->il", a.shape, b, c.shape, constants=[1])(a, c).sum().backward()
        assert a.grad.shape == a.shape and "torch" not in sys.modules
        """,
    "matplotlib": """
        import matplotlib
        matplotlib.use("agg")
        from matplotlib import pyplot
        x = torch.linspace(0, 1, 20)
        line, = pyplot.plot(x, x**2)
        assert line.get_ydata()[-1] == 1
        pyplot.imshow(x.reshape(4, 5)); pyplot.hist(x); pyplot.scatter(x, x, c=x); pyplot.savefig("figure.png")
        """,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_tensors_are_taken(name, tmp_path):
    program = "import sys\nimport gradloom as torch\n" + dedent(PROGRAMS[name])
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
