"""What programs set for a whole process, and the values that say what a tensor is: devices, dtypes, finfo, iinfo."""

import copy
import pickle
from importlib import import_module

import pytest


def test_determinism_can_be_asked_for_and_read_back(torch):
    try:
        torch.use_deterministic_algorithms(True, warn_only=True)
        assert torch.are_deterministic_algorithms_enabled() and torch.is_deterministic_algorithms_warn_only_enabled()
        assert torch.get_deterministic_debug_mode() == 1
        torch.set_deterministic_debug_mode("error")
        assert torch.get_deterministic_debug_mode() == 2 and not torch.is_deterministic_algorithms_warn_only_enabled()
        for wrong, error in (("foo", RuntimeError), (4, RuntimeError), (1.5, TypeError)):
            with pytest.raises(error):
                torch.set_deterministic_debug_mode(wrong)
    finally:
        torch.set_deterministic_debug_mode(0)
    assert not torch.are_deterministic_algorithms_enabled()
    with pytest.raises(TypeError, match="must be bool, not int"):
        torch.use_deterministic_algorithms(1)


def test_the_precision_of_products_can_be_set_to_three_words(torch):
    assert torch.get_float32_matmul_precision() == "highest"
    try:
        torch.set_float32_matmul_precision("high")
        with pytest.warns(UserWarning, match="foo is not one of 'highest', 'high', or 'medium'"):
            torch.set_float32_matmul_precision("foo")
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision("highest")


def test_threads_are_counted(torch):
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)
    for call in (
        lambda: torch.set_num_threads(0),
        lambda: torch.set_num_threads("a"),
        lambda: torch.set_num_interop_threads(0),
    ):
        with pytest.raises(RuntimeError, match="expects a"):
            call()


def test_the_default_device_is_the_cpu(torch):
    assert torch.get_default_device() == torch.device("cpu")
    torch.set_default_device("cpu:0")
    assert torch.get_default_device() == torch.device("cpu", 0)
    torch.set_default_device(None)
    assert torch.get_default_device() == torch.device("cpu")
    with pytest.raises(RuntimeError, match="Expected one of cpu"):
        torch.set_default_device("foo")


def test_a_device_is_a_context_manager(torch):
    with torch.device("cpu"):
        assert torch.ones(2).device == torch.device("cpu")


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (("foo",), RuntimeError, "Expected one of cpu, cuda.* device type at start of device string: foo"),
        (("",), RuntimeError, "Device string must not be empty"),
        (("cpu:a",), RuntimeError, "Invalid device string"),
        (("cpu:01",), RuntimeError, "Invalid device string"),
        (("cpu:",), RuntimeError, "Invalid device string"),
        (("float64",), RuntimeError, "Invalid device string"),
        (("cpu", -1), RuntimeError, "index must not be negative"),
        (("cpu:0", 0), RuntimeError, "must not include an index"),
        ((None,), TypeError, "device\\(\\)"),
    ],
)
def test_what_is_no_device(torch, arguments, error, words):
    with pytest.raises(error, match=words):
        torch.device(*arguments)


def test_devices_that_are_not_there_have_names(torch):
    assert str(torch.device("mps")) == "mps" and torch.device("xpu:1").index == 1
    with pytest.raises(AttributeError, match="not writable"):
        torch.device("cpu").type = "cuda"


@pytest.mark.parametrize(
    "call",
    [
        lambda torch: torch.ones(1).cuda(),
        lambda torch: torch.ones(1).to("cuda"),
        lambda torch: torch.ones(1, device="cuda"),
        lambda torch: torch.tensor([1], device="cuda:0"),
    ],
)
def test_a_gpu_that_is_not_there_is_an_assertion_error(torch, call):
    if torch.cuda.is_available():
        pytest.skip("there is one")
    with pytest.raises((AssertionError, RuntimeError), match="(?i)cuda|nvidia"):
        call(torch)


def test_classes_of_gpu_tensors_have_no_instances(torch):
    assert not isinstance(torch.ones(1), torch.cuda.FloatTensor)


@pytest.mark.parametrize("name", ["dtype", "device", "Size", "layout", "memory_format", "finfo", "iinfo"])
def test_classes_are_found_where_they_say_they_are(torch, name):
    kind = getattr(torch, name)
    assert kind.__module__ == torch.__name__ and kind.__qualname__ == name


def test_constants_survive_pickle_and_copy(torch):
    for value in (torch.float32, torch.bool, torch.bfloat16, torch.strided, torch.channels_last):
        assert pickle.loads(pickle.dumps(value)) is value and copy.deepcopy(value) is value
    for value in (torch.device("cpu", 1), torch.Size([1, 2])):
        assert pickle.loads(pickle.dumps(value)) == value and copy.copy(value) == value


def test_finfo_and_iinfo_of_one_type_are_equal(torch):
    assert torch.finfo(torch.float32) == torch.finfo(torch.float32) != torch.finfo(torch.float64)
    assert torch.iinfo(torch.int8) == torch.iinfo(torch.int8) != torch.iinfo(torch.uint8)
    assert torch.finfo(torch.complex64).dtype == "float32"


def test_what_promotion_refuses(torch):
    with pytest.raises(RuntimeError, match="attempted to promote UInt16 and Int$"):
        torch.promote_types(torch.uint16, torch.int32)
    with pytest.raises(RuntimeError, match="attempted to promote UInt16 and UInt32$"):
        torch.promote_types(torch.uint16, torch.uint32)
    with pytest.raises(TypeError, match="argument 'type2' \\(position 2\\) must be torch.dtype, not int"):
        torch.promote_types(torch.float32, 3)
    with pytest.raises(RuntimeError, match="Unknown Complex ScalarType for Char"):
        torch.int8.to_complex()


def test_python_types_stand_for_dtypes(torch):
    assert torch.finfo(float).dtype == "float64" and torch.iinfo(int).dtype == "int64"
    assert torch.promote_types(float, torch.float32) is torch.float64 and not torch.can_cast(float, int)
    with pytest.raises(TypeError, match="finfo.*must be torch.dtype, not str"):
        torch.finfo("float32")


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda torch: torch.ones(2), "torch.FloatTensor"),
        (lambda torch: 3, "int"),
        (lambda torch: None, "NoneType"),
        (lambda torch: [].append, "list.append"),
        (lambda torch: torch.Size([1]), "torch.Size"),
        (lambda torch: torch.nn.Linear(1, 1), "torch.nn.modules.linear.Linear"),
        (lambda torch: torch.float32, "torch.dtype"),
        (lambda torch: torch.nn.Linear, "torch.nn.modules.linear.Linear"),
    ],
)
def test_typename_says_of_what_class_an_object_is(torch, make, name):
    assert torch.typename(make(torch)).replace("gradloom", "torch") == name


def test_old_views_with_another_shape(torch):
    x = torch.arange(4.0, requires_grad=True)
    with pytest.warns(UserWarning, match="non-inplace resize is deprecated"):
        y = x.resize(2, 2)
    y.sum().backward()
    assert x.grad.tolist() == [1.0] * 4
    with pytest.warns(UserWarning, match="non-inplace resize_as is deprecated"):
        assert x.resize_as(torch.zeros(2, 2)).shape == (2, 2)
    with pytest.warns(UserWarning), pytest.raises(RuntimeError, match="requested resize to 3"):
        x.resize(3)


def test_flags_of_libraries_keep_what_they_are_told(torch):
    if getattr(torch.backends, "flags_frozen", bool)():
        pytest.skip("PyTorch's own test helpers, which another test imported, have frozen its flags")
    cudnn = torch.backends.cudnn
    before = cudnn.benchmark
    try:
        cudnn.benchmark = True
        assert torch.backends.cudnn.benchmark
        with cudnn.flags(enabled=False, deterministic=True):
            assert cudnn.deterministic and not cudnn.enabled
        assert cudnn.enabled and not cudnn.deterministic
    finally:
        cudnn.benchmark = before
    torch.backends.cuda.matmul.allow_tf32 = False
    assert not hasattr(torch.backends, "no_such_library")


@pytest.mark.build_of_cpus
def test_programs_that_look_for_another_device_find_none(torch):
    if torch.cuda.is_available():
        pytest.skip("there is one")
    assert not torch.backends.mps.is_available() and not torch.backends.cuda.is_built()
    assert not torch.xpu.is_available() and not torch.accelerator.is_available() and torch.xpu.device_count() == 0
    assert torch.accelerator.current_accelerator() is None and torch.version.cuda is None
    if hasattr(torch.accelerator, "random"):  # since 2.15
        assert torch.accelerator.random.get_rng_state_all() == []
        for name in ("get_rng_state", "initial_seed"):
            with pytest.raises(RuntimeError, match="Cannot access accelerator device when none is available"):
                getattr(torch.accelerator.random, name)()
    assert issubclass(torch.OutOfMemoryError, RuntimeError) and torch.cuda.OutOfMemoryError is torch.OutOfMemoryError


def test_code_is_not_compiled_unless_it_is(torch):
    assert not torch.compiler.is_compiling() and not torch.jit.is_scripting() and not torch.jit.is_tracing()

    @torch.jit.ignore
    def twice(x):
        return 2 * x

    @torch.jit.unused
    def thrice(x):
        return 3 * x

    @torch.compiler.disable
    def both(x):
        return twice(x) + thrice(x)

    assert both(1) == 5 and torch.jit.annotate(int, 3) == 3


@pytest.mark.parametrize("strict", [False, True])
def test_a_program_is_told_that_it_is_exported(torch, strict):
    told = {}
    compiler = torch.compiler

    class Asking(torch.nn.Module):
        def forward(self, x):
            told.update(exporting=compiler.is_exporting(), compiling=compiler.is_compiling())
            return x * (2 if compiler.is_exporting() else 3) + (10 if compiler.is_dynamo_compiling() else 20)

    program = import_module(f"{torch.__name__}.export").export(Asking(), (torch.ones(1),), strict=strict)
    assert program.module()(torch.ones(1)).tolist() == [12.0 if strict else 22.0]
    assert strict or told == {"exporting": True, "compiling": True}
    assert not compiler.is_exporting() and not compiler.is_compiling() and not compiler.is_dynamo_compiling()

    class Failing(torch.nn.Module):
        def forward(self, x):
            raise ValueError("it fails")

    if not strict:
        with pytest.raises(ValueError, match="it fails"):
            import_module(f"{torch.__name__}.export").export(Failing(), (torch.ones(1),))
        assert not compiler.is_exporting() and not compiler.is_compiling()


def test_scripts_stay_python(gradloom):
    module = gradloom.nn.Linear(1, 1)
    assert gradloom.compile(module)._orig_mod is module and gradloom.jit.script(module) is module

    @gradloom.compile(fullgraph=True)
    def twice(x):
        return 2 * x

    assert twice(gradloom.ones(1)).item() == 2.0
    with pytest.raises(AssertionError, match="A callable function is expected, but <class 'int'> is provided"):
        gradloom.compile(3)
    with pytest.raises(RuntimeError, match="gradloom has no TorchScript"):
        gradloom.jit.save(module, "file")


def test_what_gradloom_computes_with_is_told(gradloom):
    assert f"gradloom {gradloom.__version__}" in gradloom.__config__.show() and "NumPy" in gradloom.__config__.show()
    assert gradloom.version.__version__ == gradloom.__version__
    assert gradloom.backends.cpu.get_cpu_capability() in ("AVX512", "AVX2", "DEFAULT")
