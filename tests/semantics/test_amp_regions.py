"""Regions of autocast: where they hold, how they nest, and what they refuse."""

import threading

import pytest

from tests.waiting import LIMIT, in_threads


def dtype_of_product(torch):
    return (torch.ones(2, 2) @ torch.ones(2, 2)).dtype


def test_products_are_computed_in_bfloat16_within_a_region_and_not_after_it(torch):
    with torch.autocast("cpu"):
        assert dtype_of_product(torch) is torch.bfloat16
        assert torch.is_autocast_enabled("cpu")
    assert dtype_of_product(torch) is torch.float32
    assert not torch.is_autocast_enabled("cpu")


def test_a_region_may_name_float16(torch):
    with torch.autocast("cpu", dtype=torch.float16):
        assert dtype_of_product(torch) is torch.float16
        assert torch.get_autocast_dtype("cpu") is torch.float16
    assert torch.get_autocast_dtype("cpu") is torch.bfloat16


def test_a_region_that_is_not_enabled_within_another_casts_nothing(torch):
    with torch.autocast("cpu"):
        with torch.autocast("cpu", enabled=False):
            assert dtype_of_product(torch) is torch.float32
        assert dtype_of_product(torch) is torch.bfloat16


def test_a_region_that_names_no_dtype_takes_the_one_around_it(torch):
    with torch.autocast("cpu", dtype=torch.float16), torch.autocast("cpu"):
        assert dtype_of_product(torch) is torch.float16


def test_a_region_that_is_not_enabled_may_have_any_dtype(torch, recwarn):
    with torch.autocast("cpu", enabled=False, dtype=torch.float32):
        assert torch.get_autocast_dtype("cpu") is torch.float32
        assert dtype_of_product(torch) is torch.float32
    assert not recwarn.list


def test_an_error_in_a_region_ends_it(torch):
    with pytest.raises(KeyError), torch.autocast("cpu"):
        raise KeyError
    assert not torch.is_autocast_enabled("cpu")


def test_a_decorated_function_runs_in_a_region(torch, documented):
    @torch.autocast("cpu")
    def product():
        """Multiply."""
        return dtype_of_product(torch)

    assert product() is torch.bfloat16
    assert (product.__name__, product.__doc__) == ("product", documented("Multiply."))
    assert dtype_of_product(torch) is torch.float32


def test_a_decorated_function_may_call_itself(gradloom):
    @gradloom.autocast("cpu")
    def product(depth):
        return [dtype_of_product(gradloom), *(product(depth - 1) if depth else []), dtype_of_product(gradloom)]

    assert product(2) == [gradloom.bfloat16] * 6
    assert dtype_of_product(gradloom) is gradloom.float32


def test_the_context_manager_returns_itself_and_may_be_used_again(torch):
    region = torch.autocast("cpu")
    for _ in range(2):
        with region as entered:
            assert entered is region
            assert dtype_of_product(torch) is torch.bfloat16
        assert dtype_of_product(torch) is torch.float32


def test_a_region_may_be_entered_while_it_is_entered(gradloom):
    region = gradloom.autocast("cpu")
    with region:
        with region:
            pass
        assert dtype_of_product(gradloom) is gradloom.bfloat16
    assert dtype_of_product(gradloom) is gradloom.float32


def test_a_region_belongs_to_its_thread(torch):
    with torch.autocast("cpu"):
        assert in_threads(lambda: dtype_of_product(torch)) == [torch.float32]


def test_a_region_of_another_device_changes_nothing_here(torch):
    with (
        torch.autocast("cpu", dtype=torch.float16),
        pytest.warns(UserWarning, match="CUDA is not available"),
        torch.autocast("cuda"),
    ):
        assert dtype_of_product(torch) is torch.float16
        assert not torch.is_autocast_enabled("cuda")
    with torch.autocast("xpu"):
        assert torch.is_autocast_enabled("xpu") and not torch.is_autocast_enabled("cpu")
        assert dtype_of_product(torch) is torch.float32
    assert not torch.is_autocast_enabled("xpu")


def test_a_dtype_that_the_cpu_does_not_cast_to_disables_the_region_with_a_warning(torch):
    for dtype in (torch.float32, torch.float64, torch.int64):
        with pytest.warns(UserWarning, match="the target dtype is not supported"):
            region = torch.autocast("cpu", dtype=dtype)
        with region:
            assert dtype_of_product(torch) is torch.float32
            assert not torch.is_autocast_enabled("cpu")


def test_a_dtype_that_is_none_is_refused(gradloom):
    with pytest.raises(TypeError, match="argument 'dtype' must be torch.dtype, not str"):
        gradloom.autocast("cpu", dtype="bfloat16")


@pytest.mark.parametrize("value", [None, 3, ["cpu"]])
def test_a_device_type_that_is_no_string_is_refused(torch, value):
    with pytest.raises(ValueError, match="Expected `device_type` of type `str`, got: "):
        torch.autocast(value)
    with pytest.raises(ValueError, match="Expected `device_type` of type `str`, got: "):
        torch.autocast(torch.device("cpu"))


def test_unknown_devices_and_devices_without_autocast_are_refused(torch):
    with pytest.raises(RuntimeError, match="Expected one of cpu, cuda.*device type at start of device string: cpuu"):
        torch.autocast("cpuu")
    with pytest.raises(RuntimeError):
        torch.autocast("meta")
    with pytest.raises(RuntimeError, match="unknown device type for autocast"):
        torch.is_autocast_enabled("meta")


def test_an_index_after_the_device_type_is_passed_over(torch):
    with torch.autocast("cpu:0"):
        assert dtype_of_product(torch) is torch.bfloat16


def test_there_is_autocast_for_some_devices(torch):
    assert torch.amp.is_autocast_available("cpu")
    assert not torch.amp.is_autocast_available("meta")
    with pytest.raises(RuntimeError, match="Expected one of cpu"):
        torch.amp.is_autocast_available("abacus")
    with pytest.raises(TypeError, match="must be str"):
        torch.amp.is_autocast_available(torch.device("cpu"))


def test_casting_is_switched_by_hand(torch):
    torch.set_autocast_enabled("cpu", True)
    try:
        assert torch.is_autocast_enabled("cpu")
        assert dtype_of_product(torch) is torch.bfloat16
        torch.set_autocast_dtype("cpu", torch.float16)
        assert dtype_of_product(torch) is torch.float16
        assert torch.autocast("cpu").fast_dtype is torch.float16
    finally:
        torch.set_autocast_enabled("cpu", False)
        torch.set_autocast_dtype("cpu", torch.bfloat16)
        torch.clear_autocast_cache()
    assert dtype_of_product(torch) is torch.float32


def test_nesting_is_counted(torch):
    assert torch.autocast_increment_nesting() == 1
    assert torch.autocast_increment_nesting() == 2
    assert torch.autocast_decrement_nesting() == 1
    with torch.autocast("cpu"):
        assert torch.autocast_increment_nesting() == 3
        assert torch.autocast_decrement_nesting() == 2
    assert torch.autocast_decrement_nesting() == 0


@pytest.mark.parametrize(
    ("name", "args", "position"),
    [
        ("is_autocast_enabled", (None,), 1),
        ("get_autocast_dtype", (3,), 1),
        ("set_autocast_enabled", ("cpu", 1), 2),
        ("set_autocast_dtype", ("cpu", "bfloat16"), 2),
    ],
)
def test_arguments_of_a_wrong_type_are_refused(torch, name, args, position):
    with pytest.raises(TypeError, match=rf"{name}\(\): argument '\w+' \(position {position}\) must be "):
        getattr(torch, name)(*args)


def test_without_a_device_cuda_is_meant(torch):
    assert torch.is_autocast_enabled() is False
    torch.set_autocast_enabled(False)
    assert not torch.is_autocast_enabled("cpu")


def test_the_names_of_old_still_work_and_warn(torch):
    with pytest.warns(DeprecationWarning, match=r"get_autocast_dtype\('cpu'\)"):
        assert torch.get_autocast_cpu_dtype() is torch.bfloat16
    with pytest.warns(DeprecationWarning, match=r"is_autocast_enabled\('cpu'\)"):
        assert torch.is_autocast_cpu_enabled() is False
    with pytest.warns(DeprecationWarning):
        torch.set_autocast_cpu_enabled(True)
    assert dtype_of_product(torch) is torch.bfloat16
    with pytest.warns(DeprecationWarning):
        torch.set_autocast_cpu_enabled(False)
    with pytest.warns(DeprecationWarning):
        torch.set_autocast_cpu_dtype(torch.float16)
    with torch.autocast("cpu"):
        assert dtype_of_product(torch) is torch.float16
    with pytest.warns(DeprecationWarning):
        torch.set_autocast_cpu_dtype(torch.bfloat16)
    with pytest.warns(DeprecationWarning, match=r"get_autocast_dtype\('cuda'\)"):
        assert torch.get_autocast_gpu_dtype() is torch.float16


def test_the_module_of_old_still_works_and_warns(torch):
    with pytest.warns(FutureWarning, match=r"torch.amp.autocast\('cpu', args...\)"):
        region = torch.cpu.amp.autocast()
    with region:
        assert dtype_of_product(torch) is torch.bfloat16
    with pytest.warns(FutureWarning, match=r"torch.amp.GradScaler\('cpu', args...\)"):
        assert torch.cpu.amp.GradScaler(init_scale=8.0).get_scale() == 8.0


def test_regions_are_entered_and_left_by_functions(torch):
    region = torch.amp._enter_autocast("cpu", torch.float16, True, True)
    assert dtype_of_product(torch) is torch.float16
    torch.amp._exit_autocast(region)
    assert dtype_of_product(torch) is torch.float32


def test_threads_may_share_a_decorated_function(gradloom):
    meet = threading.Barrier(3)

    @gradloom.autocast("cpu")
    def product():
        meet.wait(LIMIT)  # all threads are in the region at once
        return dtype_of_product(gradloom)

    def call():
        return product(), dtype_of_product(gradloom), gradloom.is_autocast_enabled("cpu")

    assert in_threads(*[call] * 3) == [(gradloom.bfloat16, gradloom.float32, False)] * 3


def test_a_program_that_never_casts_does_not_import_autocast(gradloom):
    import subprocess
    import sys

    code = (
        "import sys, gradloom as torch; (torch.ones(2, requires_grad=True) @ torch.ones(2)).backward(); "
        "print([name for name in sys.modules if name.startswith(('gradloom.amp', 'gradloom.cpu'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT)
    assert done.stdout.strip() == "[]"
