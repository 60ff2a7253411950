"""The lists of public names that gradloom does not have are those of today, and missing names say so."""

import pytest

torch = pytest.importorskip("torch")


from gradloom.binding import families  # noqa: E402
from gradloom.types.absent_names import NAMES  # noqa: E402
from tests.releases import pytorch_before  # noqa: E402

from . import absent  # noqa: E402


@pytest.mark.skipif(pytorch_before(absent.REFERENCE), reason="an older PyTorch lacks some of the names")
def test_the_lists_are_up_to_date():
    for path, text in absent.files().items():
        assert path.read_text(encoding="utf-8") == text, f"write {path}: python -m tests.conformance.absent"


@pytest.mark.skipif(not pytorch_before(absent.REFERENCE), reason="the test above compares more")
@pytest.mark.parametrize("module", absent.MODULES)
def test_the_lists_have_what_an_older_pytorch_has_and_gradloom_lacks(module):
    assert {*absent.absent_names()[module][1]} <= {*NAMES.get(module, "").split()}


@pytest.mark.parametrize("module", absent.MODULES)
def test_a_missing_name_says_that_it_is_missing(module):
    ours = absent._owner(module.replace("torch", "gradloom", 1))
    for name in absent.absent_names()[module][1][:20]:
        with pytest.raises(AttributeError, match=rf"gradloom has no {module}\.{name} yet; docs/absent.md"):
            getattr(ours, name)
    with pytest.raises(AttributeError, match=r"^(module|type object) '[\w.]*' has no attribute 'no_such_name'$"):
        getattr(ours, "no_such" + "_name")


def test_public_names_leave_out_what_pytorch_keeps_to_itself():
    names = absent.public_names("torch")
    assert {"add", "stft", "float32", "nn", "manual_seed"} <= {*names}
    assert not {"AliasDb", "Any", "os", "sys", "TYPE_CHECKING", "e"} & {*names}


def test_each_reason_concerns_missing_names_only():
    found = absent.absent_names()
    missing = {f"{module}.{name}" for module, (_, names) in found.items() for name in names}
    for reason in absent.REASONS:
        assert any(absent.reason_of(name) == reason for name in missing), f"no missing name has the reason: {reason}"
    assert not any(absent.reason_of(name) for name in ("torch.add", "torch.nn.Linear", "torch.Tensor.to_sparse"))


@pytest.mark.parametrize("names, theirs", [(families.function_names, torch), (families.method_names, torch.Tensor)])
def test_operators_have_no_names_that_pytorch_lacks(names, theirs):
    found = names()
    assert len(found) > 400
    assert [name for name in sorted(found) if not hasattr(theirs, name)] == []
