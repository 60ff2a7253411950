"""The installed release of PyTorch. gradloom follows the newest; CI compares with one that is quick to install."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def pytorch_before(release: str) -> bool:
    """Return whether the installed PyTorch is older than a release such as "2.15"; False where there is none."""
    try:
        installed = version("torch")
    except PackageNotFoundError:
        return False
    return _numbers(installed) < _numbers(release)


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.partition("+")[0].split(".") if part.isdigit())
