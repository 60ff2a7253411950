"""Reductions and normalizations of the elements that a mask selects.

Each function takes `mask`, a tensor of bools that broadcasts to the input and is True for the elements that count; None
stands for all. The elements that do not count are replaced by a value that does not change the result. Where no
element counts, a result is that value, or nan for a mean, median, variance or standard deviation.
"""

from ..types.public import found_in as _found_in
from ._elements import (
    cumprod as cumprod,
    cumsum as cumsum,
    log_softmax as log_softmax,
    logaddexp as logaddexp,
    normalize as normalize,
    softmax as softmax,
    softmin as softmin,
)
from ._masks import _canonical_dim, _input_mask, _output_mask, _reduction_identity
from ._reductions import (
    amax as amax,
    amin as amin,
    argmax as argmax,
    argmin as argmin,
    logsumexp as logsumexp,
    mean as mean,
    median as median,
    norm as norm,
    prod as prod,
    std as std,
    sum as sum,
    var as var,
)

__all__ = [
    "amax",
    "amin",
    "argmax",
    "argmin",
    "cumprod",
    "cumsum",
    "log_softmax",
    "logaddexp",
    "logsumexp",
    "mean",
    "median",
    "norm",
    "normalize",
    "prod",
    "softmax",
    "softmin",
    "std",
    "sum",
    "var",
]

_found_in(__name__, *(globals()[name] for name in __all__))
