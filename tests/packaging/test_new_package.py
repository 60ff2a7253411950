"""`gradloom new`: a package of operators is made, generated, imported, changed and published."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest

from gradloom.codegen.errors import UsageError
from gradloom.codegen.target import installed, project
from gradloom.ops._registry import RESERVED
from gradloom.tools.cli import main
from gradloom.tools.commands import new as new_command
from tests.waiting import LIMIT, started

GRADLOOM = (sys.executable, "-m", "gradloom")


def run(*command, cwd, check=True, **environment):
    """A command's exit code, and what it prints on both streams."""
    done = subprocess.run(
        [str(c) for c in command],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        cwd=cwd,
        env={**os.environ, **environment},
    )
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


def python(folder, code, check=True):
    """Run a program with the package of a project on the path."""
    return run(
        sys.executable,
        "-W",
        "error",
        "-c",
        textwrap.dedent(code),
        cwd=folder,
        check=check,
        PYTHONPATH=str(folder / "src"),
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A new project, as it was made."""
    parent = tmp_path_factory.mktemp("new")
    run(*GRADLOOM, "new", "myops", cwd=parent)
    return parent / "myops"


@pytest.fixture
def myops(made, tmp_path):
    """A project of one's own to change."""
    return Path(shutil.copytree(made, tmp_path / "myops", ignore=shutil.ignore_patterns("__pycache__")))


def append(folder, name, text):
    path = folder / "src" / "myops" / name
    path.write_text(path.read_text() + textwrap.dedent(text))


def test_a_new_project_has_what_it_needs_and_is_generated(made):
    files = {str(p.relative_to(made)) for p in made.rglob("*") if p.is_file() and "__pycache__" not in p.parts}
    assert {
        "pyproject.toml",
        "Makefile",
        "README.md",
        ".gitignore",
        "tests/test_myops.py",
        "src/myops/__init__.py",
        "src/myops/native_functions.yaml",
        "src/myops/derivatives.yaml",
        "src/myops/py.typed",
        "src/myops/kernels/smooth.py",
        "src/myops/formulas/smooth.py",
        "src/myops/composite/smooth.py",
        "src/myops/generated/namespaces/smooth.py",
        "src/myops/generated/functions/smooth.py",
        "src/myops/generated/operators.pyi",
        "src/myops/generated/methods.pyi",
    } <= files
    assert not any("{{" in (made / f).read_text() for f in files)
    assert oct(made.stat().st_mode & 0o777) == "0o755"
    assert "up to date" in run(*GRADLOOM, "check", cwd=made / "src").stdout


def test_its_own_tests_pass(made):
    assert (
        "5 passed"
        in run(sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", cwd=made).stdout
    )


def test_its_readme_is_right(made):
    code = re.search(r"```python\n(.*?)```", (made / "README.md").read_text(), re.DOTALL)[1]
    assert python(made, code).stdout.startswith("tensor([-0.9994,  0.0000,  0.9997])")


def test_its_operators_compose_with_everything(made):
    python(
        made,
        """
        import gradloom, myops
        from gradloom.autograd import forward_ad, gradcheck, gradgradcheck
        x = gradloom.tensor([-3.0, 0.5, 4.0, 1.0], dtype=gradloom.float64, requires_grad=True)
        assert gradcheck(myops.softabs, (x,), check_forward_ad=True)
        assert gradgradcheck(gradloom.ops.myops.rolling_mean, (x, 2), check_fwd_over_rev=True)
        assert gradcheck(myops.softabs_loss, (x, x.detach() * 2), check_forward_ad=True)

        y = x.softabs()
        assert y.grad_fn.name() == "SoftabsBackward0"
        assert y.grad_fn.next_functions[0][0].name().endswith("AccumulateGrad")
        seen = []
        y.register_hook(lambda g: seen.append(1))
        y.grad_fn.register_prehook(lambda g: (g[0] * 2,))
        y.grad_fn._raw_saved_self.register_hooks(lambda t: seen.append(t) or t, lambda t: t)
        y.sum().backward()
        assert len(seen) == 2, seen
        assert gradloom.allclose(x.grad, 2 * x.detach() / y.detach())

        z = x.clone()
        assert z.softabs_() is z and z.grad_fn.name() == "SoftabsBackward0"
        view = x.clone()[1:3]
        view.softabs_()
        assert gradloom.autograd.grad(view.sum(), x)[0][0] == 0
        out = gradloom.empty(0, dtype=gradloom.float64)
        myops.rolling_mean(x.detach(), 2, out=out)
        assert out.tolist() == [-1.25, 2.25, 2.5]
        with forward_ad.dual_level():
            t = forward_ad.unpack_dual(myops.rolling_mean(forward_ad.make_dual(x.detach(), x.detach()), 2)).tangent
            assert t.tolist() == out.tolist()
        assert myops.softabs(gradloom.tensor([3, 4])).dtype is gradloom.float32
        assert not hasattr(gradloom, "softabs") and not hasattr(gradloom.Tensor, "rolling_mean")
        assert "rolling_mean" in dir(myops) and repr(gradloom.ops.myops).startswith("<namespace gradloom.ops.myops: ")
    """,
    )


def test_an_error_of_an_operator_says_which_it_is_and_where_its_entry_is(myops):
    append(myops, "native_functions.yaml", "- func: breaks(Tensor self) -> Tensor\n  kernel: xp.sin(self)\n")
    append(myops, "derivatives.yaml", "- name: breaks(Tensor self) -> Tensor\n  self: grad.reshape([7, 7])\n")
    run(*GRADLOOM, "generate", cwd=myops)
    said = python(
        myops,
        "import gradloom, myops\nmyops.breaks(gradloom.ones(2, requires_grad=True)).sum().backward()",
        check=False,
    ).stderr
    line = (myops / "src/myops/derivatives.yaml").read_text().splitlines().index("  self: grad.reshape([7, 7])") + 1
    assert "BreaksBackward0, the backward of breaks" in said
    assert f"src/myops/derivatives.yaml:{line}" in said


def test_a_new_operator_and_an_override_are_a_few_lines_of_yaml(myops):
    append(
        myops,
        "native_functions.yaml",
        """
        - func: cube(Tensor self) -> Tensor
          variants: function, method
          top_level: true
          autogen: cube_
          kernel: self * self * self
        """,
    )
    append(
        myops,
        "derivatives.yaml",
        """
        - name: cube(Tensor self) -> Tensor
          self: grad * 3 * softabs(self, 0.) ** 2
          result: auto_element_wise
        # the square root with a gradient of zero at zero
        - name: sqrt(Tensor self) -> Tensor
          override: true
          self: where(self == 0, 0, grad / (2 * result))
          result: where(self_p == 0, 0, self_t / (2 * result))
        """,
    )
    assert "up to date" not in run(*GRADLOOM, "check", cwd=myops, check=False).stdout
    assert "generated " in run(*GRADLOOM, "generate", cwd=myops).stdout
    python(
        myops,
        """
        import gradloom
        x = gradloom.tensor([0.0, 4.0], dtype=gradloom.float64, requires_grad=True)
        before = gradloom.sqrt
        import myops
        assert gradloom.autograd.gradgradcheck(gradloom.cube, (x[1:],))
        assert gradloom.autograd.grad(x.cube().sum(), x)[0].tolist() == [0, 48]
        for sqrt in (before, gradloom.sqrt, gradloom.Tensor.sqrt, lambda x: x.clone().sqrt_()):
            y = sqrt(x)
            assert y.grad_fn.name() == "SqrtBackward0"
            assert gradloom.autograd.grad(y.sum(), x)[0].tolist() == [0, 0.25]
        assert type(y.grad_fn).__module__ == "myops.generated.functions.overrides"
    """,
    )


def test_a_family_may_be_a_folder(myops):
    for room in ("kernels", "formulas", "composite"):
        folder = myops / "src/myops" / room
        (folder / "smooth").mkdir()
        (folder / "smooth" / "__init__.py").write_text("")
        text = (folder / "smooth.py").read_text()
        (folder / "smooth" / "rolling.py").write_text(text)
        (folder / "smooth.py").unlink()
    run(*GRADLOOM, "generate", cwd=myops)
    assert (
        "from myops.kernels.smooth import rolling as "
        in (myops / "src/myops/generated/variable_type/myops.py").read_text()
        + (myops / "src/myops/generated/variable_type/smooth.py").read_text()
    )
    run(sys.executable, "-m", "pytest", "-q", "tests", cwd=myops, PYTHONPATH=str(myops / "src"))
    assert "kernels/smooth/rolling.py:" in run(*GRADLOOM, "explain", "rolling_mean", cwd=myops).stdout


def test_a_package_may_have_overrides_only(myops):
    package = myops / "src/myops"
    (package / "native_functions.yaml").write_text("# none\n")
    (package / "derivatives.yaml").write_text("- name: exp(Tensor self) -> Tensor\n  override: true\n  self: grad\n")
    run(*GRADLOOM, "generate", cwd=myops)
    python(
        myops,
        """
        import gradloom, myops
        x = gradloom.ones(1, requires_grad=True)
        x.exp().backward()
        assert x.grad.item() == 1 and len(gradloom.ops.myops) == 0
    """,
    )


@pytest.mark.parametrize(
    "file, old, new, said",
    [
        ("derivatives.yaml", "/ result", "/ resutl", r"derivatives.yaml:4:24: error: unknown name `resutl`"),
        ("derivatives.yaml", "rolling_mean_backward(grad", "rolling_mean_backwards(grad", "did you mean `rolling_m"),
        ("native_functions.yaml", "smooth.rolling_mean", "smooth.rolling_men", "did you mean `rolling_mean`"),
        (
            "native_functions.yaml",
            "composite: smooth",
            "composite: smoothe",
            "there is no family `smoothe` in composite/",
        ),
        ("native_functions.yaml", "softabs(Tensor", "abs(Tensor", "tensors have a `abs` already"),
    ],
)
def test_an_error_has_its_place_and_nothing_is_written(myops, file, old, new, said):
    path = myops / "src/myops" / file
    path.write_text(path.read_text().replace(old, new))
    if "abs(" in new:
        path.write_text(path.read_text().replace("softabs_, softabs.out", "abs_, abs.out"))
    before = {p: p.stat().st_mtime_ns for p in (myops / "src/myops/generated").rglob("*.py")}
    done = run(*GRADLOOM, "generate", cwd=myops, check=False)
    assert done.returncode == 1
    assert said in done.stderr and f"src/myops/{file}:" in done.stderr
    assert before == {p: p.stat().st_mtime_ns for p in (myops / "src/myops/generated").rglob("*.py")}


def test_a_helper_cannot_hide_what_generated_code_calls(myops):
    path = myops / "src/myops/formulas/smooth.py"
    path.write_text(path.read_text() + "\n\ndef wrap(x):\n    return x\n")
    said = run(*GRADLOOM, "generate", cwd=myops, check=False).stderr
    assert "src/myops/formulas/smooth.py:" in said and "`wrap` cannot be the name of a helper" in said


def test_a_wheel_has_the_generated_code_and_the_yaml_and_needs_gradloom_only(made, tmp_path):
    pytest.importorskip("setuptools", minversion="70.1")
    source = shutil.copytree(made, tmp_path / "source")
    run(
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
        "--wheel-dir",
        tmp_path,
        source,
        cwd=tmp_path,
    )
    (wheel,) = tmp_path.glob("myops-0.1.0-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = archive.read("myops-0.1.0.dist-info/METADATA").decode()
        archive.extractall(tmp_path / "site")
    expected = {
        str(p.relative_to(made / "src"))
        for p in (made / "src/myops").rglob("*")
        if p.suffix in (".py", ".pyi", ".yaml", ".typed")
    }
    assert expected <= names and {"myops/generated/functions/smooth.py", "myops/generated/operators.pyi"} <= expected
    assert [r for r in re.findall(r"Requires-Dist: (.*)", metadata) if "extra" not in r] == ["gradloom<0.2,>=0.1"]
    shutil.rmtree(source)
    said = run(
        sys.executable,
        "-c",
        "import gradloom, myops; print(myops.__file__, myops.softabs(gradloom.ones(1)))",
        cwd=tmp_path,
        PYTHONPATH=str(tmp_path / "site"),
    ).stdout
    assert str(tmp_path / "site") in said and "tensor([1.0050])" in said


@pytest.mark.parametrize(
    "name, said",
    [
        ("MyOps", "such as `myops`"),
        ("my-ops", "such as `my_ops`"),
        ("1st", "such as `myops`"),
        ("", "small letter first"),
        ("../up", "such as `up`"),
        ("class", "keyword"),
        ("match", "keyword"),
        ("math", "Python's own"),
        ("gradloom", "reserved"),
        ("user", "reserved"),
        ("define", "reserved"),
        ("pip", "is installed"),
    ],
)
def test_a_bad_name_is_refused(name, said, tmp_path, capsys):
    assert main(["new", "--dir", str(tmp_path), "--", name]) == 2
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_existing_folder_is_left_alone(made, capsys):
    before = sorted(made.rglob("*"))
    assert main(["new", "myops", "--dir", str(made.parent)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert sorted(made.rglob("*")) == before
    assert main(["new", "myops", "--dir", str(made.parent / "nowhere")]) == 2
    assert "no such folder" in capsys.readouterr().err


def test_what_fails_half_way_leaves_nothing(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device", "x")

    monkeypatch.setattr(new_command, "write", fail)
    with pytest.raises(OSError):
        new_command.make("myops", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_names_that_gradloom_ops_has_are_reserved():
    assert RESERVED <= new_command.RESERVED


def test_a_package_that_was_not_generated_or_for_another_gradloom_says_so(myops):
    init = myops / "src/myops/generated/__init__.py"
    init.write_text(re.sub(r'GRADLOOM = ".*"', 'GRADLOOM = "9.7.1"', init.read_text()))
    said = python(myops, "import myops", check=False).stderr
    assert "was generated for gradloom 9.7.1, and this is" in said and "gradloom generate" in said
    shutil.rmtree(init.parent)
    assert "run `gradloom generate`" in python(myops, "import myops", check=False).stderr


def test_two_packages_cannot_have_one_namespace(made, myops):
    other = myops / "src" / "others"
    shutil.copytree(made / "src" / "myops", other)
    for path in [*other.rglob("*.py"), myops / "pyproject.toml"]:
        text = path.read_text().replace("myops.generated", "others.generated").replace("from myops.", "from others.")
        path.write_text(text.replace('package = "src/myops"', 'package = "src/others"\nnamespace = "myops"'))
    said = python(myops, "import myops, others", check=False).stderr
    assert "cannot register the namespace gradloom.ops.myops: myops.generated has it already" in said


def test_a_namespace_may_differ_from_the_package(myops):
    path = myops / "pyproject.toml"
    path.write_text(path.read_text().replace('package = "src/myops"', 'package = "src/myops"\nnamespace = "mine"'))
    init = myops / "src/myops/__init__.py"
    init.write_text(init.read_text().replace("_ops.myops", "_ops.mine"))
    run(*GRADLOOM, "generate", cwd=myops)
    python(myops, "import gradloom, myops\nassert gradloom.ops.mine.softabs is myops.softabs")


@pytest.mark.parametrize(
    "text, said",
    [
        ("[tool.gradloom]\n", 'write package = "src/myops"'),
        ('[tool.gradloom]\npackage = "src/none"\n', "is no folder"),
        ('[tool.gradloom]\npackage = "src/myops"\nnamespace = "a b"\n', "is not a name"),
        ("[tool", "pyproject.toml"),
        ('[tool.gradloom]\npackage = "tests"\n', "neither native_functions.yaml nor derivatives.yaml"),
    ],
)
def test_a_broken_project_file_is_an_error_of_usage(myops, text, said):
    (myops / "pyproject.toml").write_text(text)
    done = run(*GRADLOOM, "generate", cwd=myops, check=False)
    assert done.returncode == 2 and said in done.stderr


def test_a_target_is_found_by_folder_and_by_import(myops, monkeypatch):
    found = project(myops)
    assert (found.package, found.namespace, found.generated) == ("myops", "myops", "myops.generated")
    assert project(myops / "src") is None
    monkeypatch.syspath_prepend(myops / "src")
    assert installed("myops") == found
    for name in ("nowhere_at_all", "json"):
        with pytest.raises(UsageError):
            installed(name)


def test_watch_generates_again_on_save_says_what_is_wrong_and_ends_with_ctrl_c(myops):
    derivatives = myops / "src/myops/derivatives.yaml"
    generated = myops / "src/myops/generated/functions/myops.py"
    with started([*GRADLOOM, "generate", "--watch"], myops / "log", cwd=myops) as watching:
        watching.wait_for("watching")
        sound = derivatives.read_text()
        derivatives.write_text(sound.replace("/ result", "/ resutl"))
        watching.wait_for("derivatives.yaml changed", "unknown name `resutl`")
        derivatives.write_text(sound.replace("(self / result).conj()", "(1.0 * self / result).conj()"))
        watching.wait_for("derivatives.yaml changed", "generated ")
        assert "(1.0 * self / result)" in generated.read_text()
        kernel = myops / "src/myops/kernels/more.py"
        kernel.write_text("def f(x):\n    return x\n")
        watching.wait_for("more.py changed")
        assert watching.end() == 0
        assert "Traceback" not in watching.log.read_text()
