"""One sample of one operator, callable on the reference and on the candidate."""

from __future__ import annotations

import contextlib
import random
import traceback
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .compare import TOLERANCES, difference
from .library import PYTORCH, Absent, Library
from .proxy import callable_for
from .records import TensorRecord, Unconvertible, leaves, map_leaves, numpy_dtype

#: Operators whose result is memory as it was found: only shape and dtype can be compared.
UNDEFINED_VALUES = frozenset(
    ("empty empty_like empty_permuted empty_strided new_empty new_empty_strided resize_ resize_as_").split()
)
#: Decompositions that are unique only up to signs, phases or a choice of basis. PyTorch's database has, with
#: each sample, a function of the result that does not depend on the choice; that is compared where the plain
#: values differ.
GAUGE_FREE = frozenset("svd linalg.svd linalg.eig linalg.eigh linalg.qr qr geqrf pca_lowrank svd_lowrank".split())

SEED = 42

#: In which dtype PyTorch's result counts as the truth for a result in low precision.
WIDER = {"float32": "float64", "bfloat16": "float64", "float16": "float64", "complex64": "complex128"}


class Reject(Exception):
    """The reference itself does not take this sample in this stage: there is nothing to compare."""


@dataclass
class Case:
    op: Any
    function: Callable  # the candidate's version of op.op
    candidate: Library
    dtype: str
    where: str
    input: Any  # recorded, as are args and kwargs
    args: tuple
    kwargs: dict
    sample: Any = None
    reference: Library = PYTORCH
    rounded: str = ""  # the dtype through which random numbers pass, so that a widened case has the same ones

    # ---- calling ----

    def values(self, library: Library, adapt: Callable[[TensorRecord, Any], Any] | None = None) -> tuple[Any, ...]:
        """Fresh (input, args, kwargs) in a library."""
        return library.build((self.input, self.args, self.kwargs), adapt)

    def call(self, library: Library, values: tuple[Any, ...], function: Callable | None = None, **extra: Any) -> Any:
        """The operator, or `function`, on (input, args, kwargs) of a library."""
        if function is None:
            function = self.op.op if library is self.reference else self.function
        first, args, kwargs = values
        return function(first, *args, **kwargs, **extra)

    def reference_call(self) -> Any:
        """What PyTorch returns for the sample; Reject where it raises."""
        self.reseed()
        return self.sure(lambda: self.call(self.reference, self.values(self.reference)))

    def candidate_call(self) -> Any:
        self.reseed()
        return self.call(self.candidate, self.values(self.candidate))

    def sure(self, action: Callable[[], Any]) -> Any:
        """Run something on the reference; what it refuses is not checked."""
        try:
            return action()
        except Reject:
            raise
        except Exception as error:
            raise Reject(str(error)) from error

    def attempt(self, action: Callable[[], Any]) -> tuple[Any, str | None]:
        """Run something on the candidate: (value, None) or (None, "raises ...")."""
        try:
            return action(), None
        except (Absent, Unconvertible):
            raise
        except Exception as error:
            self.candidate.check_absence(error)
            return None, describe(error)

    def raised(self, library: Library, action: Callable[[], Any]) -> Exception | None:
        """The exception that an action ends with."""
        try:
            action()
        except (Absent, Unconvertible):
            raise
        except Exception as error:
            if library is self.candidate:
                library.check_absence(error)
            return error
        return None

    def on_candidate(self, function: Callable) -> Callable:
        """The candidate's version of another callable of this operator: its in-place variant, a method."""
        return callable_for(function, self.candidate)

    def further_inputs(self, library: Library) -> list[Any]:
        """Tensors to differentiate for besides the sample's: a module's parameters, after a call."""
        return []

    # ---- looking at results ----

    def tensors(self, value: Any, library: Library) -> list[Any]:
        return [leaf for leaf in leaves(value) if library.is_tensor(leaf)]

    def processed(self, value: Any, library: Library) -> Any:
        """The part of a result that derivatives are compared for, unique where the result is not."""
        process = getattr(self.sample, "output_process_fn_grad", None)
        if process is None or process.__qualname__.startswith("SampleInput."):
            return value
        return process(value) if library is self.reference else self.candidate.adapt_function(process)(value)

    def difference(self, expected: Any, actual: Any, tolerances: dict = TOLERANCES) -> str | None:
        """Why two results of the operator differ, or None."""
        values = self.op.name not in UNDEFINED_VALUES
        compared = (self.reference, self.candidate, tolerances, values)
        reason = difference(expected, actual, *compared)
        if reason and self.op.name in GAUGE_FREE and not difference(expected, actual, *compared[:3], False):
            return difference(
                self.processed(expected, self.reference), self.processed(actual, self.candidate), *compared
            )
        if reason and values and not difference(expected, actual, *compared[:3], False):
            from .excuses import forward_excused  # which looks at cases

            return None if forward_excused(self, expected, actual, tolerances) else reason
        return reason

    def mixed(self) -> bool:
        """Whether some tensors have less precision than the case's dtype."""
        return self.dtype not in WIDER and any(
            isinstance(leaf, TensorRecord) and leaf.dtype in WIDER
            for leaf in leaves((self.input, self.args, self.kwargs))
        )

    def widened(self) -> Case:
        """This case with its low-precision tensors in float64, and the same random numbers."""
        return replace(
            self,
            input=self._widened(self.input),
            args=self._widened(self.args),
            kwargs=self._widened(self.kwargs),
            dtype=WIDER.get(self.dtype, self.dtype),
            rounded=self.dtype if self.dtype in WIDER else "",
        )

    def _widened(self, recorded: Any) -> Any:
        """A recorded tree with its tensors of low precision in wider dtypes."""

        def leaf(value: Any) -> Any:
            if not isinstance(value, TensorRecord) or value.dtype not in WIDER:
                return value
            wide = WIDER[value.dtype]
            return replace(value, flat=value.flat.astype(wide), dtype=wide)

        return map_leaves(leaf, recorded)

    def random(self, shape: tuple[int, ...], dtype: str, salt: str, requires_grad: bool = False) -> TensorRecord:
        """Standard normal values that depend on the sample and `salt` alone."""
        source = np.random.RandomState(zlib.crc32(f"{self.op.full_name} {self.where} {salt}".encode()))
        values = source.standard_normal(shape)
        if dtype.startswith("complex"):
            values = values + 1j * source.standard_normal(shape)
        values = np.asarray(values)
        if self.rounded and values.dtype.kind != "c":
            values = values.astype(numpy_dtype(self.rounded))
        return TensorRecord.of_array(values.astype(numpy_dtype(dtype)), dtype, requires_grad)

    def reseed(self) -> None:
        """Every source of random numbers back to one start, so that both libraries draw the same."""
        seed_all(SEED, self.candidate)


def seed_all(value: int, candidate: Library | None = None) -> None:
    random.seed(value)
    np.random.seed(value % 2**32)
    # Not torch.manual_seed, which would also note down the call for each accelerator.
    torch.default_generator.manual_seed(value)
    if candidate is not None:
        with contextlib.suppress(Absent):  # a candidate without random numbers needs no seed
            candidate.seed(value)


Check = Callable[[Case, Any], "str | None"]


def describe(error: BaseException) -> str:
    """What an exception says in one line, `raises ValueError: its first line (file.py:12)`, and where."""
    first = (str(error).splitlines() or [""])[0]
    frames = traceback.extract_tb(error.__traceback__)
    inside = frames and Path(frames[-1].filename).parent != Path(__file__).parent
    at = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if inside else ""
    return f"raises {type(error).__name__}: {first[:200]}".rstrip(": ") + at


def same_error_class(expected: BaseException, actual: BaseException) -> bool:
    """Whether two libraries raise the same class; a library's own class counts by its name."""
    return type(expected).__name__.lstrip("_") == type(actual).__name__.lstrip("_")
