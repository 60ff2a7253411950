"""Results of steps of the generator, by a digest of all that they follow from.

A `Memo` is made from the results that an earlier run kept and has those that the next may use. What a result is a
digest of is the business of those who ask: a step must follow from nothing else.

Note [Kept values]
Values are pickled. Reading them makes objects of the generator's and Python's own classes of data and calls no other
function: `_Unpickler` refuses every other name. A `Source` is not kept: a value belongs to the text of one entry, which
the reader has, and which may have moved to other lines.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from hashlib import sha256
from io import BytesIO
from typing import Any, TypeVar

T = TypeVar("T")
SIZE = 20  # bytes of a digest
LARGEST = 1 << 24  # bytes; of more results than that, only those that were used are kept


def digest(*parts: str | bytes) -> bytes:
    """Return a digest of the parts, in which none can take over the end of another."""
    found = sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        found.update(b"%d:" % len(data))
        found.update(data)
    return found.digest()[:SIZE]


class Memo:
    """Results by the digests of what they follow from."""

    def __init__(self, kept: Mapping[bytes, bytes] | None = None) -> None:
        self._kept = dict(kept or {})
        self._used: dict[bytes, bytes] = {}
        self.has_news = False  # whether there are results that were not kept

    def data(self, key: bytes, make: Callable[[], bytes]) -> bytes:
        """Return the result of a step; `make` computes it if it is not kept."""
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = make()
            self.has_news = True
        self._used[key] = found
        return found

    def text(self, key: bytes, make: Callable[[], str]) -> str:
        """Return the result of a step that gives text."""
        return self.data(key, lambda: make().encode()).decode()

    def value(self, key: bytes, make: Callable[[], T], source: object = None) -> T:
        """Return the result of a step that gives data, all of whose places are in `source`."""
        data = self.find(key)
        if data is not None:
            try:
                return _load(data, source)  # type: ignore[no-any-return]
            except Exception:  # written by something else: it is made anew
                pass
        made = make()
        self.set(key, _dump(made, source))
        return made

    def set(self, key: bytes, result: bytes) -> None:
        """Set a result, also in place of another."""
        if self._kept.get(key) != result:
            self.has_news = True
        self._kept[key] = self._used[key] = result

    def find(self, key: bytes) -> bytes | None:
        """Return a result if it is kept."""
        found = self._kept.get(key)
        if found is not None:
            self._used[key] = found
        return found

    def results(self) -> dict[bytes, bytes]:
        """Return the results to keep: those that were used, and others as long as they are few."""
        others = sum(map(len, self._kept.values()))
        return self._used if others > LARGEST else self._kept


_MODULES = ("gradloom.codegen.", "gradloom.schema.", "ast.")
_NAMES = frozenset(("builtins.frozenset", "builtins.set", "pathlib.PosixPath", "pathlib.WindowsPath"))


class _Pickler(pickle.Pickler):
    def __init__(self, file: BytesIO, source: object) -> None:
        super().__init__(file, 5)
        self._source = source

    def persistent_id(self, value: object) -> int | None:
        if value is self._source and value is not None:
            return 0
        if value.__class__.__name__ == "Source":
            raise pickle.PicklingError("a value with places in the text of another entry")
        return None

    def reducer_override(self, value: object) -> Any:
        cls = value.__class__
        if isinstance(value, Enum):  # by default, some versions of Python write a call of `getattr`
            return cls, (value.value,)
        if "__dataclass_fields__" in cls.__dict__:
            return _made, (cls, *[getattr(value, name) for name in cls.__dict__["__dataclass_fields__"]])
        return NotImplemented


def _made(cls: type, *values: object) -> object:
    """Return a frozen object of a class of data, several times as fast as its own way to be unpickled."""
    setters = _setters.get(cls)
    if setters is None:
        names = cls.__dict__["__dataclass_fields__"]
        setters = _setters[cls] = tuple(getattr(cls, name).__set__ for name in names)
    found: Any = object.__new__(cls)
    for setter, value in zip(setters, values, strict=True):
        setter(found, value)
    return found


_setters: dict[type, tuple[Callable[[object, object], None], ...]] = {}  # as many as the generator has


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: BytesIO, source: object) -> None:
        super().__init__(file)
        self._source = source

    def persistent_load(self, _: int) -> object:
        return self._source

    def find_class(self, module: str, name: str) -> Any:
        return _class(self, module, name)


_classes: dict[tuple[str, str], Any] = {}  # as many as the generator has


def _class(unpickler: _Unpickler, module: str, name: str) -> Any:
    found = _classes.get((module, name))
    if found is None:
        if not f"{module}.".startswith(_MODULES) and f"{module}.{name}" not in _NAMES:
            raise pickle.UnpicklingError(f"{module}.{name}")
        loaded = pickle.Unpickler.find_class(unpickler, module, name)
        if loaded is not _made and (not isinstance(loaded, type) or loaded.__module__ != module):
            raise pickle.UnpicklingError(f"{module}.{name}")
        found = _classes[module, name] = loaded
    return found


def _dump(value: object, source: object) -> bytes:
    file = BytesIO()
    _Pickler(file, source).dump(value)
    return file.getvalue()


def _load(data: bytes, source: object) -> Any:
    return _Unpickler(BytesIO(data), source).load()


def pack(results: Mapping[bytes, bytes]) -> bytes:
    """Return results as bytes, for a file."""
    return b"".join([part for key, data in results.items() for part in (key, len(data).to_bytes(4, "big"), data)])


def unpack(data: bytes) -> dict[bytes, bytes]:
    """Return the results in bytes. Raises ValueError if they are no such bytes."""
    found: dict[bytes, bytes] = {}
    at, end = 0, len(data)
    while at < end:
        start = at + SIZE + 4
        stop = start + int.from_bytes(data[at + SIZE : start], "big")
        if stop > end:
            raise ValueError("the results are cut off")
        found[data[at : at + SIZE]] = data[start:stop]
        at = stop
    return found


def digest_of(values: Iterable[bytes]) -> bytes:
    """Return the digest of digests in their order."""
    return sha256(b"".join(values)).digest()[:SIZE]
