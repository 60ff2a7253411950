"""Names that packages import though they do not use them: they can be imported and asked about; a use is refused."""

from __future__ import annotations

import importlib
import warnings

import pytest

import gradloom as gl


def test_there_is_no_process_group():
    import gradloom.distributed as dist

    assert dist.is_available() and not dist.is_initialized()
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        dist.get_rank()
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        dist.nothing  # noqa: B018


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("distributed.fsdp", "FullyShardedDataParallel"),
        ("distributed.rpc", "RRef"),
        ("distributed.pipelining", "PipelineStage"),
        ("jit", "ScriptModule"),
        ("cuda", "Stream"),
        ("_C", "Graph"),
    ],
)
def test_a_class_without_instances(module, name):
    found = getattr(importlib.import_module(f"gradloom.{module}"), name)
    assert not isinstance(gl.ones(1), found) and not issubclass(gl.nn.Module, found)

    class Derived(found):
        def __init__(self):
            """Never called."""

    for cls in (found, Derived):
        with pytest.raises(RuntimeError, match=rf"^torch\.{module}\.{name}: "):
            cls()


def test_modules_give_the_same_class_away():
    from gradloom.distributed._tensor import DTensor
    from gradloom.distributed.tensor import DTensor as same

    assert DTensor is same and DTensor | None
    with pytest.raises(ImportError):
        from gradloom.distributed.tensor import nothing  # noqa: F401


@pytest.mark.parametrize(
    ("module", "name", "home"),
    [
        ("_tensor", "DTensor", "tensor"),
        ("tensor", "Shard", "tensor.placement_types"),
        ("tensor.placement_types", "Partial", "tensor.placement_types"),
        ("tensor.device_mesh", "init_device_mesh", "device_mesh"),
        ("_composable.fsdp", "fully_shard", "fsdp"),
        ("checkpoint.default_planner", "DefaultSavePlanner", "checkpoint"),
        ("checkpoint.state_dict_saver", "save", "checkpoint"),
    ],
)
def test_refusing_modules_give_away_what_exists(module, name, home):
    found, expected = (importlib.import_module(f"gradloom.distributed.{one}") for one in (module, home))
    assert getattr(found, name) is getattr(expected, name)


def test_the_front_end_of_the_compiler_changes_nothing():
    import gradloom._dynamo as dynamo

    def double(x):
        return 2 * x

    assert dynamo.disable(double) is double and dynamo.disable(recursive=False)(double) is double
    assert dynamo.optimize("inductor")(double)(3) == 6 and not dynamo.external_utils.is_compiling()
    with dynamo.config.patch(suppress_errors=True):
        dynamo.reset()
    assert issubclass(gl.jit.TracerWarning, Warning)
    warnings.filterwarnings("ignore", category=gl.jit.TracerWarning)


def test_queries_of_gpus_are_answered():
    with gl.cuda.stream(None), gl.cuda.device(None), gl.cuda.device_of(gl.ones(1)):
        assert gl.cuda.memory_reserved() == 0 and gl.cuda.get_arch_list() == []
    with pytest.raises(AssertionError, match="not compiled with CUDA"), gl.cuda.device(0):
        pass
    with pytest.raises(AssertionError, match="not compiled with CUDA"):
        gl.cuda.current_stream()
    assert gl._C._get_accelerator() == gl.device("cpu")


def test_dtypes_that_are_names():
    assert str(gl.qint8) == "torch.qint8" and gl.qint8 != gl.int8 and gl.qint8.itemsize == 1
    assert gl.chalf is gl.complex32 and gl.complex32.is_complex and gl.float4_e2m1fn_x2.is_floating_point
    for name in "qint8", "complex32", "int4", "float4_e2m1fn_x2":  # ml_dtypes has arrays of the last three
        with pytest.raises(TypeError, match=rf"gradloom has no tensors of dtype torch\.{name}, only its name"):
            gl.zeros(2, dtype=getattr(gl, name))


def test_trees_by_the_names_of_their_parts():
    from gradloom.utils import _pytree

    node = _pytree.SUPPORTED_NODES[_pytree._get_node_type({"a": 1})]
    assert node.flatten_fn({"a": 1}) == ([1], ["a"]) and node.unflatten_fn([2], ["a"]) == {"a": 2}
    assert _pytree._dict_flatten_with_keys({"a": 1}) == ([(_pytree.MappingKey("a"), 1)], ["a"])
