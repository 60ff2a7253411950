"""The installed release of PyTorch. gradloom follows the newest; CI compares with one that is quick to install."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, requires, version


def pytorch_before(release: str) -> bool:
    """Return whether the installed PyTorch is older than a release such as "2.15"; False where there is none."""
    try:
        installed = version("torch")
    except PackageNotFoundError:
        return False
    return _numbers(installed) < _numbers(release)


def pytorch_of_gpus() -> bool:
    """Return whether the installed PyTorch is a build for GPUs; False where there is none."""
    try:
        return any(one.startswith(("nvidia-", "cuda-")) for one in requires("torch") or [])
    except PackageNotFoundError:
        return False


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.partition("+")[0].split(".") if part.isdigit())
