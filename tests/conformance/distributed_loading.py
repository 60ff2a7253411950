"""Load PyTorch's file of tests of torch.distributed with gradloom as torch.

The file and its helper module are read from PyTorch's wheel and run as they are, but for their imports: a name that
gradloom does not have becomes a stand-in, which fails when a test uses it. PyTorch itself is not imported. What the
files take from PyTorch's `common_utils`, which imports most of PyTorch, is below.
"""

from __future__ import annotations

import ast
import contextlib
import sys
import tempfile
import unittest
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any


class Missing:
    """A name that gradloom does not have: anything may be asked of it, but a call fails."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Missing(f"{self.__name__}.{name}")

    def __bool__(self) -> bool:
        return False

    def __mro_entries__(self, bases: Any) -> tuple[type, ...]:
        return ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"gradloom has no {self.__name__}")


def find(module: str, name: str | None = None) -> Any:
    """Return a module, or a name of one, or a stand-in."""
    with contextlib.suppress(ImportError, AttributeError, NotImplementedError):
        found = import_module(module)
        return found if name is None else getattr(found, name)
    if name is not None:
        with contextlib.suppress(ImportError):
            return import_module(f"{module}.{name}")
    return Missing(module if name is None else f"{module}.{name}")


class _Imports(ast.NodeTransformer):
    """Replace imports from torch by calls of `find`."""

    def visit_ImportFrom(self, node: ast.ImportFrom) -> Any:
        if (node.module or "").partition(".")[0] != "torch":
            return node
        return [self._bound(alias.asname or alias.name, node.module, alias.name) for alias in node.names]

    def visit_Import(self, node: ast.Import) -> Any:
        kept = []
        for alias in node.names:
            if alias.name.partition(".")[0] != "torch" or alias.name == "torch":
                kept.append(ast.Import([alias]))
            elif alias.asname:
                kept.append(self._bound(alias.asname, alias.name))
            else:
                kept.append(ast.Expr(self._call(alias.name)))
        return kept

    def _bound(self, name: str, *what: str | None) -> ast.stmt:
        return ast.Assign([ast.Name(name, ast.Store())], self._call(*what))

    def _call(self, *what: str | None) -> ast.expr:
        return ast.Call(ast.Name("__find__", ast.Load()), [ast.Constant(one) for one in what], [])


def _run(name: str, path: Path) -> ModuleType:
    tree = ast.fix_missing_locations(_Imports().visit(ast.parse(path.read_text())))
    module = ModuleType(name)
    module.__file__ = str(path)
    module.__dict__["__find__"] = find
    sys.modules[name] = module
    exec(compile(tree, str(path), "exec"), module.__dict__)
    return module


class TestCase(unittest.TestCase):
    """What the tests need of PyTorch's TestCase: comparison of tensors, and of what contains them."""

    _default_dtype_check_enabled = False

    def assertEqual(self, first: Any, second: Any, msg: Any = None, **options: Any) -> None:
        import torch

        given = {name: options[name] for name in ("atol", "rtol") if options.get(name) is not None}
        if isinstance(first, torch.Tensor) and isinstance(second, (int, float, complex, bool)):
            second = torch.full_like(first, second)
        if isinstance(second, torch.Tensor) and isinstance(first, (int, float, complex, bool)):
            first = torch.full_like(second, first)
        if isinstance(first, torch.Tensor) and isinstance(second, torch.Tensor):
            first, second = (one.to_dense() if one.is_sparse else one for one in (first, second))
            torch.testing.assert_close(
                first, second, check_dtype=options.get("exact_dtype", True), equal_nan=True, check_stride=False, **given
            ) if len(given) != 1 else torch.testing.assert_close(
                first, second, equal_nan=True, **{"atol": 0.0, "rtol": 0.0, **given}
            )
        elif isinstance(first, Mapping) and isinstance(second, Mapping):
            self.assertEqual(list(first), list(second), msg)
            for key in first:
                self.assertEqual(first[key], second[key], msg, **options)
        elif _is_list(first) and _is_list(second):
            super().assertEqual(len(first), len(second), msg)
            for one, other in zip(first, second, strict=True):
                self.assertEqual(one, other, msg, **options)
        elif isinstance(first, float) or isinstance(second, float):
            torch.testing.assert_close(first, second, check_dtype=False, equal_nan=True, **given)
        else:
            super().assertEqual(first, second, msg)

    def assertGreaterAlmostEqual(self, first: Any, second: Any, places: int = 7, msg: Any = None, **_: Any) -> None:
        if not first > second:
            self.assertAlmostEqual(float(first), float(second), places, msg)

    def assertNotEqual(self, first: Any, second: Any, msg: Any = None, **options: Any) -> None:
        with self.assertRaises(AssertionError, msg=msg):
            self.assertEqual(first, second, **options)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _skip_if(condition: bool, reason: str) -> Any:
    return unittest.skipIf(condition, reason)


@contextlib.contextmanager
def _temporary_file_name(*args: Any, **kwargs: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        yield str(Path(folder, "file"))


def _common_utils() -> ModuleType:
    module = ModuleType("torch.testing._internal.common_utils")
    flags = """IS_FBCODE IS_MACOS IS_SANDCASTLE IS_WINDOWS TEST_CUDA TEST_HPU TEST_WITH_ROCM TEST_WITH_TSAN TEST_XPU
        TEST_CUDA_GRAPH TEST_WITH_SLOW TEST_SKIP_FAST"""
    module.__dict__.update(dict.fromkeys(flags.split(), False))
    module.__dict__.update(
        IS_LINUX=True,
        FILE_SCHEMA="file://",
        TestCase=TestCase,
        TemporaryFileName=_temporary_file_name,
        skip_but_pass_in_sandcastle_if=_skip_if,
        skip_but_pass_in_sandcastle=unittest.skip,
        instantiate_parametrized_tests=_instantiated,
        parametrize=_parametrize,
        retry_on_connect_failures=lambda function=None, **options: function or (lambda f: f),
        LazyVal=lambda function: function(),
        find_free_port=lambda: 0,
    )
    return module


def _parametrize(names: str, values: Sequence[Any], **options: Any) -> Any:
    def decorate(function: Any) -> Any:
        function.parameters = [*getattr(function, "parameters", []), (names.split(","), list(values))]
        return function

    return decorate


def _instantiated(cls: type) -> type:
    """Make a test of each value, in the name of PyTorch's machinery for it."""
    for name, function in list(vars(cls).items()):
        for names, values in getattr(function, "parameters", [])[:1]:
            delattr(cls, name)
            for value in values:
                given = dict(zip(names, value if len(names) > 1 else [value], strict=True))

                def test(self: Any, _function: Any = function, _given: Any = given) -> Any:
                    return _function(self, **_given)

                setattr(cls, f"{name}_{'_'.join(map(str, given.values()))}", test)
    return cls


def load() -> ModuleType:
    """Return PyTorch's module of tests. BACKEND and WORLD_SIZE of the environment say what it skips."""
    spec = find_spec("torch")
    assert spec is not None and spec.origin is not None
    folder = next(Path(entry, "torch/testing/_internal") for entry in sys.path if _has_torch(Path(entry)))
    for name in ("_dynamo", "cuda"):
        import_module(f"torch.{name}")
    _stand_in("torch._dynamo.test_case", TestCase=TestCase)
    _stand_in("torch._utils_internal", TEST_MASTER_ADDR="127.0.0.1", TEST_MASTER_PORT=29500)
    sys.modules["torch.testing._internal.common_utils"] = _common_utils()
    _run("torch.testing._internal.common_distributed", folder / "common_distributed.py")
    # Under a name that is not torch's: pickles of its classes name it.
    return _run("pytorch_distributed_test", folder / "distributed/distributed_test.py")


def _has_torch(entry: Path) -> bool:
    return (entry / "torch/testing/_internal/distributed/distributed_test.py").is_file()


def _stand_in(name: str, **values: Any) -> None:
    module = ModuleType(name)
    module.__dict__.update(values)
    parent, _, last = name.rpartition(".")
    setattr(import_module(parent), last, module)
    sys.modules[name] = module
