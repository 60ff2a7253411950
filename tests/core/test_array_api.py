"""The array API standard: `Tensor.__array_namespace__` against NumPy's namespace, and packages that ask for it."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from textwrap import dedent

import numpy as np
import pytest

import gradloom as torch
from tests.waiting import LIMIT

xp = torch.ones(1).__array_namespace__()
X = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, -1.0], [0.5, -1.0, 2.0]])
I = np.array([[3, 1, 1], [0, 2, 3]])  # noqa: E741
NEWER = {"cumulative_prod", "cumulative_sum", "unstack"}  # of NumPy 2.1
CALLS = """
    xp.max(x) xp.max(x,axis=(0,1)) xp.min(x,axis=1,keepdims=True) xp.sum(i) xp.sum(x,axis=0) xp.prod(i,axis=(0,1))
    xp.prod(x,axis=1,keepdims=True) xp.mean(x,axis=(0,1),keepdims=True) xp.std(x,axis=0,correction=1) xp.var(x)
    xp.all(i) xp.any(i,axis=0) xp.all(x>0,axis=(0,1)) xp.argmax(x,axis=1,keepdims=True) xp.argmin(x)
    xp.count_nonzero(i,axis=1) xp.count_nonzero(i,axis=(0,1),keepdims=True) xp.cumulative_prod(x,axis=0)
    xp.cumulative_sum(x,axis=1,include_initial=True) xp.diff(x,axis=0) xp.sort(x,axis=0) xp.argsort(x,stable=True)
    -xp.sort(-x,axis=0) xp.unique_all(i) xp.unique_counts(i) xp.unique_inverse(i) xp.nonzero(i)
    xp.sort(xp.unique_values(i))
    xp.where(i>1,i,2.5) xp.take(x,i[1,1:]-1,axis=1) xp.take_along_axis(x,i[:1]-i[:1],axis=0)
    xp.repeat(i,2,axis=0) xp.tile(i,(2,1)) xp.roll(i,1) xp.roll(i,(1,2),axis=(0,1)) xp.expand_dims(i,axis=1)
    xp.squeeze(i[:1],axis=0) xp.flip(i) xp.flip(i,axis=1) xp.permute_dims(i,(1,0)) xp.moveaxis(i,0,1)
    xp.concat([i,i]) xp.concat([i,i],axis=None) xp.stack([i,i],axis=-1) xp.unstack(i) xp.broadcast_to(i,(2,2,3))
    xp.broadcast_arrays(i,i[:1]) xp.meshgrid(i[0],i[1]) xp.tril(x,k=-1) xp.triu(x,k=1) xp.eye(3,k=1) xp.eye(2,3,k=-4)
    xp.linspace(0,1,4,endpoint=False) xp.arange(5,1) xp.arange(1,6,2) xp.full((2,),3) xp.zeros(3) xp.ones((2,2))
    xp.reshape(i,(3,2)) xp.clip(x,0,2) xp.clip(i,None,2) xp.searchsorted(xp.arange(4),i,side='right') xp.pow(x,i[0])
    xp.add(x,i[0]) xp.subtract(i,i) xp.multiply(x,x) xp.divide(i,x[0]) xp.floor_divide(i,2) xp.remainder(-i,2)
    xp.bitwise_left_shift(i,1) xp.logical_xor(i>1,i>2) xp.maximum(x,x[0]) xp.hypot(x,x) xp.atan2(x,x) xp.sign(x)
    xp.round(x/2) xp.isfinite(x) xp.signbit(x) xp.abs(x) xp.positive(x) xp.conj(x) xp.bitwise_invert(i)
    xp.matmul(x,x) xp.matrix_transpose(x) xp.tensordot(x,x,axes=1) xp.tensordot(x,x,axes=((0,),(1,)))
    xp.vecdot(x,x) xp.vecdot(i,i,axis=0) xp.linalg.det(x) xp.linalg.inv(x) xp.linalg.solve(x,x[0])
    xp.linalg.solve(x,x) xp.linalg.cross(x,x[0]) xp.linalg.trace(x,offset=1) xp.linalg.diagonal(x,offset=-1)
    xp.linalg.outer(x[0],i[0]) xp.linalg.matrix_norm(x,ord=1) xp.linalg.matrix_norm(x,keepdims=True)
    xp.linalg.vector_norm(x) xp.linalg.vector_norm(x,axis=0,ord=1) xp.linalg.matrix_rank(x) xp.linalg.pinv(x,rtol=.01)
    xp.linalg.slogdet(x) xp.linalg.cholesky(x,upper=True) xp.linalg.svdvals(x) xp.linalg.eigvalsh(x)
    xp.linalg.matrix_power(x,-2) xp.fft.fft(x,n=4,axis=0) xp.fft.rfftn(x,axes=(0,1),norm='ortho') xp.fft.fftfreq(5,d=.5)
    xp.fft.fftshift(x) xp.fft.hfft(x) xp.isin(i,i[0])
    """.split()


def plain(result):
    if isinstance(result, (tuple, list)):
        return [plain(part) for part in result]
    if isinstance(result, torch.Tensor):
        return result.numpy()
    return np.asarray(result)


@pytest.mark.parametrize("call", CALLS)
def test_functions_agree_with_numpy(call):
    name = call.removeprefix("xp.").partition("(")[0]
    if name in NEWER and not hasattr(np, name):
        pytest.skip(f"this NumPy has no {name}")
    theirs = plain(eval(call, {"xp": np, "x": X, "i": I}))
    ours = plain(eval(call, {"xp": xp, "x": torch.from_numpy(X), "i": torch.from_numpy(I)}))
    pairs = zip(ours, theirs, strict=True) if isinstance(theirs, list) else [(ours, theirs)]
    for one, other in pairs:
        assert one.shape == other.shape and one.dtype.kind == other.dtype.kind
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_the_namespace_has_the_functions_of_numpys():
    names = [name for name, value in vars(xp).items() if inspect.isfunction(value) and not name.startswith("_")]
    assert len(names) > 130
    assert [n for n in names if not hasattr(np, n) and n not in NEWER] == ["array_namespace"]
    assert xp.isdtype(torch.float32, ("real floating", "bool")) and not xp.isdtype(torch.int8, "unsigned integer")
    assert xp.result_type(torch.tensor(1, dtype=torch.int64), torch.int8, 1.0) is torch.float32
    assert xp.add(torch.ones(2), torch.tensor(1.0, dtype=torch.float64)).dtype is torch.float64
    with pytest.raises(ValueError, match=r"not of 2030\.12"):
        torch.ones(1).__array_namespace__(api_version="2030.12")


def test_an_empty_list_of_dimensions_is_no_reduction_of_the_standard():
    x = torch.tensor([[1.0, -2.0]])
    for name in ("sum", "max", "mean", "prod"):
        assert torch.equal(getattr(xp, name)(x, axis=()), x)
    assert xp.any(x, axis=()).tolist() == [[True, True]] and xp.count_nonzero(x, axis=()).tolist() == [[1, 1]]


def test_gradients_flow():
    x = torch.tensor([3.0, 4.0], requires_grad=True)
    xp.linalg.vector_norm(x).backward()
    assert x.grad.tolist() == pytest.approx([0.6, 0.8])


@pytest.mark.parametrize("start", ["import gradloom as torch", "import gradloom.as_torch, torch"])
def test_scipy_and_scikit_learn_return_tensors(start):
    pytest.importorskip("sklearn", minversion="1.9")
    program = f"""
        {start}
        from scipy import special, stats
        from sklearn import config_context
        from sklearn.decomposition import PCA
        from sklearn.linear_model import Ridge

        def results(x):
            yield from (special.logsumexp(x, axis=0), stats.zscore(x), stats.pearsonr(x[:, 0], x[:, 1]).statistic)
            with config_context(array_api_dispatch=True):
                yield from (PCA(2, svd_solver="full").fit_transform(x), Ridge(solver="svd").fit(x, x[:, 0]).coef_)

        x = torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(4, 3) ** 3
        assert hasattr(x, "__array_namespace__") == (torch.__name__ == "gradloom")
        for ours, theirs in zip(results(x), results(x.numpy()), strict=True):
            assert isinstance(ours, torch.Tensor) and torch.allclose(ours.abs(), torch.as_tensor(abs(theirs)))
        """
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    command = [sys.executable, "-W", "ignore", "-c", dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, env=environment)
    assert done.returncode == 0, done.stderr
