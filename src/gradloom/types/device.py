"""Devices, layouts and memory formats: small immutable values that print as PyTorch's do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any


class device:
    """The device of a tensor: the CPU, or `meta` for tensors without data (Note [Meta tensors]).

    As a context manager it sets the device of new tensors.

    Args:
        type: "cpu", "cpu:0", or another `device`.
        index: position among the devices of the type, or None.

    Raises:
        RuntimeError: if there is no such type, or the index is negative.
    """

    __slots__ = ("type", "index")
    __module__ = "gradloom"
    if TYPE_CHECKING:  # typing would look the names up in `gradloom`
        type: str
        index: int | None
        _context: Any

    def __init__(self, type: str | device, index: int | None = None) -> None:
        if isinstance(type, device):
            type, index = type.type, type.index
        if isinstance(type, int):
            raise RuntimeError("Cannot access accelerator device when none is available.")
        if not isinstance(type, str):
            raise TypeError(f"device(): argument 'type' must be str, not {type.__class__.__name__}")
        if not type:
            raise RuntimeError("Device string must not be empty")
        name, colon, number = type.partition(":")
        if number:
            if index is not None:
                raise RuntimeError(
                    f"type (string) must not include an index because index was passed explicitly: {type}"
                )
            if not number.isdigit() or number != str(int(number)):
                raise RuntimeError(f"Invalid device string: '{type}'")
            index = int(number)
        elif colon or not name.isalpha():
            raise RuntimeError(f"Invalid device string: '{type}'")
        if name not in TYPES:
            raise RuntimeError(f"Expected one of {', '.join(TYPES)} device type at start of device string: {name}")
        if index is not None and index < 0:
            raise RuntimeError("Device index must not be negative")
        object.__setattr__(self, "type", name)
        object.__setattr__(self, "index", index)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"attribute '{name}' of 'torch.device' objects is not writable")

    # What a block `with device(...)` enters; gradloom.utils._device provides it.
    _context = None

    def __enter__(self) -> device:
        names_meta(self)
        device._context(self).__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        device._context(None).__exit__(*exception)

    def __repr__(self) -> str:
        return (
            f"device(type='{self.type}')" if self.index is None else f"device(type='{self.type}', index={self.index})"
        )

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __reduce__(self) -> tuple[Any, ...]:
        return device, (self.type, self.index)


# Known types; "cpu" and "meta" exist here. Programs name the others in code for machines that have them.
TYPES = (
    "cpu",
    "cuda",
    "ipu",
    "xpu",
    "mkldnn",
    "opengl",
    "opencl",
    "ideep",
    "hip",
    "ve",
    "fpga",
    "maia",
    "xla",
    "lazy",
    "vulkan",
    "mps",
    "meta",
    "hpu",
    "mtia",
    "privateuseone",
)
CPU: device = device("cpu")
META: device = device("meta")


def check_device(value: object) -> None:
    """Raise unless `value` (None, str or device) names the CPU; see `names_meta`."""
    if names_meta(value):
        raise RuntimeError(f"device '{value}' has no memory; use device='cpu'")


def names_meta(value: object) -> bool:
    """Return whether `value` (None, str or device) names the meta device; False for the CPU.

    Raises:
        RuntimeError: for any other device: gradloom computes on the CPU.
        AssertionError: for a GPU, as in a CPU build of PyTorch.
    """
    if value is None or value is CPU:
        return False
    if value is META:
        return True
    kind = device(value).type  # type: ignore[arg-type]
    if kind == "cuda":
        raise no_gpu()
    if kind == "meta":
        return True
    if kind != "cpu":
        raise RuntimeError(f"gradloom computes on the CPU only; device '{value}' is not available. Use device='cpu'.")
    return False


def no_gpu() -> AssertionError:
    """Return the error for a request for a GPU."""
    return AssertionError(
        "Torch not compiled with CUDA enabled: gradloom computes on the CPU. Ask "
        "torch.cuda.is_available() first, or use device='cpu'."
    )


class _Named:
    """A named constant of the top-level namespace."""

    __slots__ = ("_name",)
    __module__ = "gradloom"
    _name: str

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"torch.{self._name}"

    def __reduce__(self) -> str:
        return self._name


class layout(_Named):
    """The layout of a tensor: `strided` or `sparse_coo`. The compressed ones of PyTorch are names only."""

    __slots__ = ()
    __module__ = "gradloom"


class memory_format(_Named):
    """An order of strides: contiguous_format, preserve_format, channels_last, channels_last_3d."""

    __slots__ = ()
    __module__ = "gradloom"


def check_layout(value: object) -> None:
    """Raise unless `value` is None or the strided layout.

    Raises RuntimeError for any other layout: functions that take one make dense tensors only.
    """
    if value is not None and value is not strided:
        raise RuntimeError(
            f"this function makes dense tensors only, but got layout={value}. Use layout=torch.strided, or make a "
            "sparse tensor by torch.sparse_coo_tensor."
        )


strided: layout = layout("strided")
sparse_coo: layout = layout("sparse_coo")
# Tensors have one of the layouts above; programs compare with these, too.
sparse_csr: layout = layout("sparse_csr")
sparse_csc: layout = layout("sparse_csc")
sparse_bsr: layout = layout("sparse_bsr")
sparse_bsc: layout = layout("sparse_bsc")
contiguous_format: memory_format = memory_format("contiguous_format")
preserve_format: memory_format = memory_format("preserve_format")
channels_last: memory_format = memory_format("channels_last")
channels_last_3d: memory_format = memory_format("channels_last_3d")
