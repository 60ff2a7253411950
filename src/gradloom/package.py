"""The names of torch.package, which gradloom refuses: archives of code and pickled objects."""

from __future__ import annotations

from typing import Any

__all__ = ["PackageExporter", "PackageImporter"]


class _Refused:
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            f"torch.package.{type(self).__name__}: gradloom does not write or read packages. Keep the code in an "
            "ordinary Python package and its state with torch.save(module.state_dict(), ...); a traced module's "
            "to_folder writes its code, and torch.export.save a program"
        )


class PackageExporter(_Refused):
    """Raises NotImplementedError, which names the alternatives."""


class PackageImporter(_Refused):
    """Raises NotImplementedError, which names the alternatives."""
