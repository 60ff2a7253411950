"""Programs that say `import torch`: `gradloom run`, `import gradloom.as_torch`, and what `gradloom doctor` finds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from gradloom.tools import doctor
from gradloom.types.absent_names import NAMES
from tests.waiting import LIMIT

A, B = NAMES["torch"].split()[:2]  # two names that gradloom lacks


def python(*arguments, **options):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=LIMIT, **options)


def shown(code: str, check=True) -> str:
    done = python("-c", dedent(code))
    assert not check or done.returncode == 0, done.stderr
    return done.stdout if check else done.stderr


@pytest.fixture
def program(tmp_path: Path):
    def write(code: str, name="program.py") -> Path:
        path = tmp_path / name
        path.write_text(dedent(code))
        return path

    return write


def test_torch_is_gradloom():
    assert shown("""
        import gradloom.as_torch
        import torch, gradloom
        import torch.nn.functional as F
        from torch import nn
        assert torch is gradloom and nn is gradloom.nn and F is gradloom.nn.functional
        print(torch.__name__, torch.__version__, type(torch.ones(1)), nn.Linear)
        print(torch.ones(2, requires_grad=True).exp())
        print(torch.ones(1) / 0)
        class Twice(torch.autograd.Function):
            forward = staticmethod(lambda ctx, x: 2 * x)
        print(type(Twice.apply(torch.ones(1, requires_grad=True)).grad_fn))
        """).splitlines() == [
        "torch 2.15.0+gradloom <class 'torch.Tensor'> <class 'torch.nn.modules.linear.Linear'>",
        "tensor([2.7183, 2.7183], grad_fn=<ExpBackward0>)",
        "tensor([inf])",
        "<class 'torch.autograd.function.TwiceBackward'>",
    ]


def test_the_import_system_knows_torch():
    assert shown("""
        import gradloom.as_torch
        from importlib import metadata, util
        print(metadata.version("torch"), util.find_spec("torch").name, util.find_spec("torch.optim").name)
        print(util.find_spec("torch.no_such_module"), util.find_spec("torch.optim.no_such_module"))
        """).splitlines() == ["2.15.0+gradloom torch torch.optim", "None None"]


def test_files_name_torch():
    assert shown("""
        import gradloom.as_torch
        import io, pickle, torch
        model = torch.nn.Sequential(torch.nn.Linear(2, 3))
        assert b"torch.nn.modules.linear" in pickle.dumps(model)
        file = io.BytesIO()
        torch.save(model, file)
        file.seek(0)
        again = torch.load(file, weights_only=False)
        print(torch.equal(again[0].weight, model[0].weight), pickle.loads(pickle.dumps(torch.float32)))
        """).splitlines() == ["True torch.float32"]


@pytest.mark.parametrize("before", ["", "copy.deepcopy(x)", "x.new_tensor([1.0])", "torch.FloatTensor([1.0])"])
def test_pickles_of_tensors_name_torch_whatever_ran_before(before):
    assert shown(f"""
        import gradloom.as_torch, copy, pickle, pickletools, torch
        x = torch.ones(2)
        {before}
        print([name for op, name, _ in pickletools.genops(pickle.dumps(x, 2)) if op.name == "GLOBAL"])
        """).startswith("['torch._utils _rebuild_tensor_v2', 'torch.storage _load_from_bytes', ")


def test_classes_imported_later_say_torch():
    assert "torch.nn.utils.parametrize.ParametrizationList\n" == shown("""
        import gradloom.as_torch, sys
        assert "gradloom.nn.utils.parametrize" not in sys.modules
        import gradloom.nn.utils.parametrize
        kind = gradloom.nn.utils.parametrize.ParametrizationList
        print(f"{kind.__module__}.{kind.__name__}")
        """)


def test_names_of_modules_that_packages_import():
    assert shown("""
        import gradloom.as_torch
        import torch
        from torch.distributions.normal import Normal
        from torch.distributions import normal
        from torch.optim.lr_scheduler import LRScheduler, _LRScheduler
        from torch.serialization import MAP_LOCATION
        print(Normal.__module__, normal.__file__.endswith("_normal.py"), _LRScheduler.__bases__[0] is LRScheduler)
        assert isinstance(torch.futures.Future(), torch.Future)
        class Named(Normal):
            name = "n"
        print(Named(0.0, 1.0).expand([2]))
        print(str in MAP_LOCATION.__args__, float in MAP_LOCATION.__args__)
        """).splitlines() == [
        "torch.distributions.normal True True",
        "Named(loc: torch.Size([2]), scale: torch.Size([2]))",
        "True False",
    ]


def test_functions_and_the_tools_of_python_say_torch():
    assert shown("""
        import gradloom.as_torch
        import inspect, pickle
        import torch
        for function in (torch.abs, torch.linalg.det, torch.nn.functional.relu, torch.optim.lr_scheduler.StepLR,
                         torch.FloatTensor, torch.nn.Linear.forward,
                         torch.optim.lr_scheduler.CyclicLR._triangular_scale_fn):
            assert pickle.loads(pickle.dumps(function)) is function
            print(function.__module__, end=" ")
        assert "def forward" in inspect.getsource(torch.nn.Linear) and inspect.getsource(torch.distributions.Normal)
        print(torch.distributions.Normal(torch.zeros(2), 1.0).expand((3, 2)))
        from torch import *
        print(tensor([1]), torch.Tensor, torch.Size)
        """).splitlines() == [
        "torch torch._C._linalg torch.nn.functional torch.optim.lr_scheduler torch torch.nn.modules.linear "
        "torch.optim.lr_scheduler Normal(loc: torch.Size([3, 2]), scale: torch.Size([3, 2]))",
        "tensor([1]) <class 'torch.Tensor'> <class 'torch.Size'>",
    ]


@pytest.mark.parametrize("setup", ["import gradloom.as_torch, torch", "import gradloom as torch"])
def test_every_method_of_tensors_can_be_pickled(setup):
    assert shown(f"""
        {setup}
        import pickle
        names = [name for name in dir(torch.Tensor) if hasattr(torch.Tensor, name)]
        methods = [getattr(torch.Tensor, name) for name in names if not name.startswith("__")]
        methods = [method for method in methods if callable(method)]
        assert all(pickle.loads(pickle.dumps(method)) is method for method in methods)
        # PyTorch finds the methods that are no functions of torch under this name.
        for method in (torch.Tensor.item, torch.Tensor.absolute_, torch.Tensor.cpu, torch.Tensor.share_memory_):
            print(method.__module__.partition(".")[2], method.__qualname__)
        """).splitlines() == [f"_C TensorBase.{name}" for name in ("item", "absolute_", "cpu", "share_memory_")]


@pytest.mark.parametrize(
    "statement",
    [
        f"from torch.{A} import *",
        f"import torch.{A}.inner",
        f"import torch; getattr(torch, '{A}')",
        f"import torch; torch.ones(1); torch.{A}()",
    ],
)
def test_what_is_missing_is_named_with_its_place(statement):
    error = shown(f"import gradloom.as_torch\n{statement}", check=False).splitlines()[-1]
    assert f"<string>:2: gradloom has no torch.{A} yet; docs/absent.md" in error


def test_what_is_missing_can_be_asked_for():
    assert (
        shown(f"""
        import gradloom.as_torch, importlib.util, torch
        print(hasattr(torch, "{A}"), getattr(torch, "{A}", 3), importlib.util.find_spec("torch.{A}"))
        """)
        == "False 3 None\n"
    )


@pytest.mark.parametrize("statement", [f"import torch.{A}", f"from torch import {A}", f"import torch; torch.{A}"])
def test_what_is_missing_is_named(program, statement):
    path = program(f"{statement}\n")
    done = python("-m", "gradloom", "run", str(path))
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 1 and f"gradloom has no torch.{A} yet; docs/absent.md" in last
    assert f'File "{path}", line 1' in done.stderr and "runpy" not in done.stderr


def test_a_name_that_nobody_has_is_an_ordinary_error():
    assert "cannot import name 'nonsense' from" in shown(
        "import gradloom.as_torch; from torch.nn import nonsense", check=False
    )
    assert "No module named 'torch.nonsense'" in shown("import gradloom.as_torch, torch.nonsense", check=False)


def test_run_gives_a_program_its_arguments_folder_and_exit_code(program):
    program("VALUE = 3", "beside.py")
    path = program("""
        import sys, beside, torch
        print(sys.argv[1:], beside.VALUE, __name__, torch.ones(1).item())
        sys.exit(int(sys.argv[1]))
        """)
    done = python("-m", "gradloom", "run", str(path), "5", "-m", "--help")
    assert (done.returncode, done.stdout) == (5, "['5', '-m', '--help'] 3 __main__ 1.0\n")


def test_run_runs_modules(program, tmp_path):
    program("import sys, torch; print(__name__, sys.argv[1:], torch.__name__)", "some_module.py")
    done = python("-m", "gradloom", "run", "-m", "some_module", "a", cwd=tmp_path)
    assert done.stdout == "__main__ ['a'] torch\n", done.stderr


def test_processes_that_a_program_starts_find_gradloom(program):
    path = program("""
        import multiprocessing, subprocess, sys, torch

        def work(queue):
            queue.put((torch.__version__, type(torch.ones(1)).__module__))

        if __name__ == "__main__":
            context = multiprocessing.get_context("spawn")
            queue = context.Queue()
            process = context.Process(target=work, args=(queue,))
            process.start()
            print(*queue.get(timeout=200))
            process.join()
            subprocess.run([sys.executable, "-c", "import torch.nn as nn; print(nn.Linear.__module__)"], check=True)
        """)
    done = python("-m", "gradloom", "run", str(path))
    assert done.stdout == "2.15.0+gradloom torch\ntorch.nn.modules.linear\n", done.stderr


def test_run_refuses_what_is_not_there(tmp_path):
    done = python("-m", "gradloom", "run", "no_such_script.py")
    assert done.returncode == 2 and done.stderr.startswith("gradloom run: there is no file no_such_script.py")
    done = python("-m", "gradloom", "run", str(tmp_path))
    assert done.returncode == 2
    assert done.stderr == f"gradloom run: {tmp_path} is a folder without __main__.py: name one of its files\n"
    for module in ("no_such_module", "no_such_package.module", "json.no_such_module"):
        done = python("-m", "gradloom", "run", "-m", module)
        assert done.returncode == 2 and done.stderr == f"gradloom run: there is no module {module}\n"


def test_another_torch_is_not_replaced_halfway():
    error = shown(
        "import sys, types; sys.modules['torch'] = types.ModuleType('torch'); import gradloom.as_torch", check=False
    )
    assert "ImportError: torch is already imported in this process" in error


PROGRAM = f"""
import torch, torch.nn as nn
from torch.nn import functional as F, Linear as L
from torch.{A} import export
try:
    import torch.{B} as other
except ImportError:
    pass
if hasattr(torch, "{B}"):
    torch.{B}.load("x")
def f(x: torch.Tensor) -> torch.Tensor:
    return F.relu(nn.functional.softmax(x, 0)).{A} + torch.{A}.symbolic(torch.finfo(x.dtype).eps)
"""


def test_doctor_lists_what_is_missing(program, capsys):
    path = program(PROGRAM)
    assert doctor.main([str(path)]) == 1
    *lines, summary = capsys.readouterr().out.splitlines()
    assert lines == [
        f"{path}:4: torch.{A}",
        f"{path}:6: torch.{B} (optional)",
        f"{path}:10: torch.{B} (optional)",
        f"{path}:12: torch.{A}",
    ]
    assert "2 missing, 1 of them only tried" in summary


def test_doctor_finds_nothing_in_a_program_that_runs(program, capsys):
    path = program("import torch\nfrom torch.optim import *\nprint(torch.nn.Linear(2, 3).weight.grad)\n")
    assert doctor.main([str(path.parent)]) == 0
    assert "0 missing" in capsys.readouterr().out


def test_doctor_reads_installed_packages_without_importing_them(capsys):
    assert doctor.main(["pluggy", "json.decoder"]) == 0
    assert "0 names of torch" in capsys.readouterr().out
    assert doctor.main(["no_such_package"]) == 2
    assert "neither a file, nor a folder, nor an installed package" in capsys.readouterr().err


def test_doctor_refuses_what_has_no_source(capsys):
    assert doctor.main(["sys"]) == 2
    assert "it has no file to read" in capsys.readouterr().err


@pytest.mark.parametrize("caught", ["ImportError", "(KeyError, builtins.AttributeError)", "Exception", ""])
def test_doctor_takes_what_a_handler_forgives_as_optional(program, capsys, caught):
    path = program(f"try:\n    import torch.{A}\nexcept {caught}:\n    pass\n")
    assert doctor.main([str(path)]) == 0
    assert "(optional)" in capsys.readouterr().out


def test_doctor_takes_other_handlers_as_none(program, capsys):
    path = program(f"try:\n    import torch.{A}\nexcept RequestException:\n    pass\n")
    assert doctor.main([str(path)]) == 1
    assert "(optional)" not in capsys.readouterr().out


def test_doctor_leaves_out_hidden_folders(program, capsys, monkeypatch):
    path = program("import torch")
    (path.parent / ".hidden").mkdir()
    (path.parent / ".hidden" / "inner.py").write_text(f"import torch.{A}")
    monkeypatch.chdir(path.parent)
    assert doctor.main(["."]) == 0
    assert capsys.readouterr().out.startswith("1 file:")


def test_doctor_goes_on_after_a_file_that_is_no_python(program, capsys):
    program("import torch; def (", "bad.py")
    program(f"import torch.{A}", "good.py")
    assert doctor.main([str(program("", "empty.py").parent)]) == 1
    printed = capsys.readouterr()
    assert "bad.py: not read" in printed.err and f"good.py:1: torch.{A}" in printed.out


def test_doctor_reads_conditions_strings_and_annotations(program, capsys):
    path = program(f"""
        from __future__ import annotations
        import contextlib, importlib, torch
        from typing import TYPE_CHECKING
        if TYPE_CHECKING:
            from torch import {A}
        with contextlib.suppress(ImportError):
            import torch.{A}
        y = torch.{A} if hasattr(torch, "{A}") else None
        y = hasattr(torch, "{A}") and torch.{A}
        y = getattr(torch, "{A}", None), torch.npu.empty_cache
        if torch.cuda.is_available():
            torch.{A}
        def f(x: torch.{A}) -> torch.{A}:
            y: torch.{A} = getattr(torch, "{B}")
        """)
    assert doctor.main([str(path)]) == 1
    *lines, _ = capsys.readouterr().out.splitlines()
    wanted = [(8, A), (9, A), (10, A), (11, A), (11, "npu"), (13, A)]
    assert [line.rpartition(".py:")[2] for line in lines] == [
        *[f"{place}: torch.{name} (optional)" for place, name in wanted],
        f"15: torch.{B}",
    ]


def test_modules_compute_where_operators_have_no_signature():
    assert (
        shown("""
        import gradloom.as_torch
        import inspect, torch

        try:
            inspect.signature(torch.nn.functional.gelu)
        except ValueError:
            print(torch.nn.GELU()(torch.zeros(2)))
        for name in dir(torch.nn):
            module = getattr(torch.nn, name)
            if isinstance(module, type) and issubclass(module, torch.nn.Module):
                inspect.signature(module), inspect.signature(module.forward)
        """)
        == "tensor([0., 0.])\n"
    )


def test_modules_have_what_pytorchs_import():
    assert shown("""
        import gradloom.as_torch
        from torch.optim.lr_scheduler import Optimizer
        from torch.distributions.multivariate_normal import Distribution, Tensor, constraints, lazy_property
        from torch.nn.modules.linear import Module, Parameter, Tensor, init, torch as again
        from torch.utils.data.dataset import Generator, randperm
        import torch, torch.optim.adam, torch.distributions
        print(Optimizer is torch.optim.Optimizer, Distribution is torch.distributions.Distribution, again is torch)
        print(Module is torch.nn.Module, hasattr(torch.nn.modules.linear, "Optimizer"), hasattr(torch.fft, "Size"))
        import functorch
        from functorch import make_functional, vmap
        print(functorch.__version__, functorch.vmap.__module__)
        """).splitlines() == ["True True True", "True False False", "2.15.0+gradloom torch._functorch.deprecated"]


def test_the_version_compares_by_its_numbers():
    assert shown("""
        import gradloom.as_torch
        import torch
        print(torch.__version__ >= (2, 13), torch.__version__ > "2.9", str(torch.__version__))
        """).split() == ["True", "True", "2.15.0+gradloom"]
