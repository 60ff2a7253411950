"""Stores: small values under names, that all ranks see and may wait for. TCPStore is in `_tcp_store.py`."""

from __future__ import annotations

import errno
import os
import stat
import struct
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, BinaryIO

from ..memory.locks import new_lock
from .errors import DistStoreError, QueueEmptyError, deadline_after, seconds_until

__all__ = ["FileStore", "HashStore", "PrefixStore", "Store"]

_TIMEOUT = timedelta(seconds=300)
_POLL = 0.01  # seconds between two looks at a file


def as_key(key: Any, method: str) -> str:
    """Return a key, checked.

    Raises:
        TypeError: if it is no string.
    """
    if isinstance(key, str):
        return key
    raise TypeError(f"{method}(): incompatible function arguments: a key must be a str, not {type(key).__name__}")


def as_value(value: Any, method: str) -> bytes:
    """Return a value as bytes, text as UTF-8.

    Raises:
        TypeError: if it is neither str nor bytes.
    """
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise TypeError(
        f"{method}(): incompatible function arguments: a value must be str or bytes, not {type(value).__name__}"
    )


class Store:
    """Values of type bytes under names, shared by several processes. Text that is given as a value is stored as UTF-8.

    A subclass needs `set`, `get`, `add`, `check`, `wait` and `compare_set`; the rest has a form that stands on those.
    """

    _timeout: timedelta = _TIMEOUT

    @property
    def timeout(self) -> timedelta:
        """Longest time that `get` and `wait` wait if they are given none."""
        return self._timeout

    def set_timeout(self, timeout: timedelta) -> None:
        """Set the longest time that `get` and `wait` wait.

        Args:
            timeout: the time.
        """
        if not isinstance(timeout, timedelta):
            raise TypeError(f"set_timeout(): expected a timedelta, not {type(timeout).__name__}")
        self._timeout = timeout

    def _missing(self, method: str) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no {method}")

    def set(self, key: str, value: str | bytes) -> None:
        """Store a value under a key, in place of what is there."""
        self._missing("set")

    def get(self, key: str) -> bytes:
        """Wait for a key and return its value.

        Raises:
            DistStoreError: if it is not set within `timeout`.
        """
        return self._missing("get")

    def add(self, key: str, value: int) -> int:
        """Add to a counter, 0 if there is none, and return its new value. It is stored as decimal digits."""
        return self._missing("add")

    def check(self, keys: Sequence[str]) -> bool:
        """Return whether all keys are set."""
        return self._missing("check")

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Wait until all keys are set.

        Raises:
            DistStoreError: if that takes longer than `timeout`, or the store's if None.
        """
        self._missing("wait")

    def compare_set(self, key: str, expected_value: str | bytes, desired_value: str | bytes) -> bytes:
        """Store a value if the one there is as expected, or if there is none and an empty one is expected.

        Returns:
            the value afterwards; `expected_value` if there is none.
        """
        return self._missing("compare_set")

    def delete_key(self, key: str) -> bool:
        """Delete a key and return whether it was there."""
        return self._missing("delete_key")

    def num_keys(self) -> int:
        """Return the number of keys, with those that the store itself needs."""
        return self._missing("num_keys")

    def list_keys(self) -> list[str]:
        """Return the keys in no particular order."""
        return self._missing("list_keys")

    def append(self, key: str, value: str | bytes) -> None:
        """Append to a value; set it if there is none."""
        before = self.get(key) if self.check([key]) else b""
        self.set(key, before + as_value(value, "append"))

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """Wait for several keys and return their values."""
        return [self.get(key) for key in keys]

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        """Store several values.

        Raises:
            ValueError: if there are not as many values as keys.
        """
        if len(keys) != len(values):
            raise ValueError(f"multi_set(): got {len(keys)} keys but {len(values)} values")
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def has_extended_api(self) -> bool:
        """Return whether `append`, `multi_get` and `multi_set` are atomic, and there are queues."""
        return False

    def queue_push(self, key: str, value: str | bytes) -> None:
        """Put a value at the end of a queue."""
        raise NotImplementedError("queue support is not implemented.")

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        """Take the first value of a queue.

        Raises:
            QueueEmptyError: if there is none, and `block` is False.
            DistStoreError: if none comes within `timeout`.
        """
        raise NotImplementedError("queue support is not implemented.")

    def queue_len(self, key: str) -> int:
        """Return the number of values in a queue."""
        raise NotImplementedError("queue support is not implemented.")

    def clone(self) -> Store:
        """Return a store with the same values, which may be used at the same time by another thread."""
        return self

    def barrier(self, key: str, world_size: int, timeout: timedelta | None = None) -> None:
        """Wait until this was called `world_size` times with a key.

        Raises:
            DistStoreError: if that takes longer than `timeout`.
        """
        arrived = self.add(f"{key}/count", 1)
        if arrived == world_size:
            self.set(f"{key}/done", b"1")
        self.wait([f"{key}/done"], self.timeout if timeout is None else timeout)


class Table:
    """The values of a store, without waiting: used by HashStore and by the server of TCPStore."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.queues: dict[str, deque[bytes]] = {}

    def has(self, key: str) -> bool:
        """Return whether a key is set or a queue of that name has values."""
        return key in self.values or bool(self.queues.get(key))

    def add(self, key: str, value: int) -> int:
        """Add to a counter.

        Raises:
            ValueError: if what is there is no number.
        """
        total = counter(self.values.get(key, b"0")) + value
        self.values[key] = str(total).encode()
        return total

    def compare_set(self, key: str, expected: bytes, desired: bytes) -> bytes:
        """Set a value if the one there is as expected, and return the one afterwards."""
        there = self.values.get(key)
        if there is None:
            if expected:
                return expected
            there = expected
        if there == expected:
            self.values[key] = there = desired
        return there

    def pop(self, key: str) -> bytes:
        """Take the first value of a queue that has one."""
        queue = self.queues[key]
        value = queue.popleft()
        if not queue:
            del self.queues[key]
        return value


def counter(value: bytes) -> int:
    """Return the number that a value is.

    Raises:
        ValueError: if it is none.
    """
    try:
        return int(value)
    except ValueError:
        raise ValueError(f"stoll: add() needs a number, but the value is {value[:40]!r}") from None


class HashStore(Store):
    """A store in this process's memory, for threads."""

    def __init__(self) -> None:
        self._table = Table()
        self._changed = threading.Condition(new_lock())

    def _await(self, ready: Callable[[], bool], timeout: timedelta | None = None) -> None:
        end = deadline_after(self._timeout if timeout is None else timeout)
        if not self._changed.wait_for(ready, seconds_until(end)):
            raise DistStoreError("Wait timeout")

    def set(self, key: str, value: str | bytes) -> None:
        with self._changed:
            self._table.values[as_key(key, "set")] = as_value(value, "set")
            self._changed.notify_all()

    def get(self, key: str) -> bytes:
        with self._changed:
            self._await(lambda: key in self._table.values)
            return self._table.values[key]

    def add(self, key: str, value: int) -> int:
        with self._changed:
            total = self._table.add(as_key(key, "add"), value)
            self._changed.notify_all()
            return total

    def check(self, keys: Sequence[str]) -> bool:
        with self._changed:
            return all(map(self._table.has, keys))

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        with self._changed:
            self._await(lambda: all(map(self._table.has, keys)), timeout)

    def compare_set(self, key: str, expected_value: str | bytes, desired_value: str | bytes) -> bytes:
        expected, desired = as_value(expected_value, "compare_set"), as_value(desired_value, "compare_set")
        with self._changed:
            found = self._table.compare_set(as_key(key, "compare_set"), expected, desired)
            self._changed.notify_all()
            return found

    def delete_key(self, key: str) -> bool:
        with self._changed:
            return self._table.values.pop(key, None) is not None

    def num_keys(self) -> int:
        with self._changed:
            return len(self._table.values)

    def list_keys(self) -> list[str]:
        with self._changed:
            return list(self._table.values)

    def append(self, key: str, value: str | bytes) -> None:
        with self._changed:
            self._table.values[key] = self._table.values.get(as_key(key, "append"), b"") + as_value(value, "append")
            self._changed.notify_all()

    def has_extended_api(self) -> bool:
        return True

    def queue_push(self, key: str, value: str | bytes) -> None:
        with self._changed:
            self._table.queues.setdefault(as_key(key, "queue_push"), deque()).append(as_value(value, "queue_push"))
            self._changed.notify_all()

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        with self._changed:
            if not block and not self._table.queues.get(key):
                raise QueueEmptyError("queue is empty")
            self._await(lambda: bool(self._table.queues.get(key)))
            return self._table.pop(key)

    def queue_len(self, key: str) -> int:
        with self._changed:
            return len(self._table.queues.get(key, ()))


_RECORD = struct.Struct("<qq")  # sizes of key and value; a value of size -1 deletes the key
_LONGEST = 1 << 40  # bytes of a key or value; eight bytes of any other kind of file are nearly always a larger number


class FileStore(Store):
    """A store in a file that all ranks can read, write and lock: on a shared disk, also those of several machines.

    The file grows by a record for each change. A new file is readable by its owner only; it is deleted when
    `world_size` processes have released it. What the ranks read from it decides which memory and addresses they
    connect to, so a file that another user can write is refused.

    Args:
        file_name: path; made if it is not there. May not be a symbolic link.
        world_size: number of processes; if it is negative, the file stays.

    Raises:
        DistStoreError: if there is a symbolic link, a file of another user or that others may write to, or a file that
            is no store.
    """

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        self._path = os.fspath(file_name)
        self._seen, self._values = 0, dict[str, bytes]()
        self._lock = new_lock()
        self._add("refcount/", 1)
        self.close = weakref.finalize(self, _release_file, self._path, world_size, os.getpid())

    @property
    def path(self) -> str:
        """Path of the file."""
        return self._path

    @contextmanager
    def _locked(self) -> Iterator[BinaryIO]:
        """Open and lock the file, and read what was appended since the last time."""
        with self._lock, _locked(self._path) as file:
            self._seen = _read_records(file, self._seen, self._values)
            yield file

    def _write(self, file: BinaryIO, key: str, value: bytes | None) -> None:
        _append_record(file, self._seen, key, value)
        self._seen = _read_records(file, self._seen, self._values)

    def _add(self, key: str, value: int) -> int:
        with self._locked() as file:
            total = counter(self._values.get(key, b"0")) + value
            self._write(file, key, str(total).encode())
            return total

    def _wait(self, keys: Sequence[str], timeout: timedelta, error: str) -> None:
        end = deadline_after(timeout)
        while not self.check(keys):
            if end is not None and time.monotonic() > end:
                raise DistStoreError(error)
            time.sleep(_POLL)

    def set(self, key: str, value: str | bytes) -> None:
        data = as_value(value, "set")
        with self._locked() as file:
            self._write(file, as_key(key, "set"), data)

    def get(self, key: str) -> bytes:
        milliseconds = round(self._timeout / timedelta(milliseconds=1))
        self._wait([key], self._timeout, f"Timeout waiting for key: {key} after {milliseconds} ms")
        with self._lock:
            return self._values[key]

    def add(self, key: str, value: int) -> int:
        return self._add(as_key(key, "add"), value)

    def check(self, keys: Sequence[str]) -> bool:
        with self._locked():
            return all(key in self._values for key in keys)

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        self._wait(keys, self._timeout if timeout is None else timeout, "Wait timeout")

    def compare_set(self, key: str, expected_value: str | bytes, desired_value: str | bytes) -> bytes:
        expected, desired = as_value(expected_value, "compare_set"), as_value(desired_value, "compare_set")
        with self._locked() as file:
            there = self._values.get(as_key(key, "compare_set"))
            if there == expected or (there is None and not expected):
                self._write(file, key, desired)
                return desired
            return expected if there is None else there

    def append(self, key: str, value: str | bytes) -> None:
        with self._locked() as file:
            self._write(file, key, self._values.get(as_key(key, "append"), b"") + as_value(value, "append"))

    def delete_key(self, key: str) -> bool:
        with self._locked() as file:
            there = key in self._values
            if there:
                self._write(file, key, None)
            return there

    def num_keys(self) -> int:
        with self._locked():
            return len(self._values)

    def list_keys(self) -> list[str]:
        with self._locked():
            return [key for key in self._values if key != "refcount/"]


@contextmanager
def _locked(path: str) -> Iterator[BinaryIO]:
    with open(path, "r+b", opener=_opened) as file:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
            try:
                yield file
            finally:
                file.flush()
                file.seek(0)
                msvcrt.locking(file.fileno(), msvcrt.LK_UNLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)  # released when the file is closed
            yield file


def _opened(path: str, flags: int) -> int:
    """Open the file of a store, or make it, and return its descriptor: an opener for `open`."""
    try:
        descriptor = os.open(path, flags | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise DistStoreError(f"the file of a FileStore may not be a symbolic link: {path}") from None
    status = os.fstat(descriptor)
    if hasattr(os, "getuid") and (status.st_uid != os.getuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)):
        os.close(descriptor)
        raise DistStoreError(f"another user can write {path}: a FileStore needs a file of yours (chmod go-w)")
    return descriptor


def _read_records(file: BinaryIO, start: int, values: dict[str, bytes]) -> int:
    """Read the records behind a position into `values`, and return the position behind the last complete one.

    Raises:
        DistStoreError: if the file has something else there.
    """
    file.seek(start)
    data = file.read()
    at = 0
    while at + _RECORD.size <= len(data):
        of_key, of_value = _RECORD.unpack_from(data, at)
        if not (0 <= of_key <= _LONGEST and -1 <= of_value <= _LONGEST):
            raise DistStoreError(f"{file.name} is no file of a FileStore")
        begin = at + _RECORD.size
        end = begin + of_key + max(of_value, 0)
        if end > len(data):
            break  # its writer was killed
        key = data[begin : begin + of_key].decode()
        if of_value < 0:
            values.pop(key, None)
        else:
            values[key] = data[begin + of_key : end]
        at = end
    return start + at


def _append_record(file: BinaryIO, end: int, key: str, value: bytes | None) -> None:
    """Write a record at the end of the complete ones."""
    file.truncate(end)
    file.seek(end)
    name = key.encode()
    file.write(_RECORD.pack(len(name), -1 if value is None else len(value)) + name + (value or b""))
    file.flush()


def _release_file(path: str, world_size: int, pid: int) -> None:
    """Count the process that made the store as one that is done, and delete the file with the last."""
    with suppress(OSError, DistStoreError):
        if os.getpid() != pid or not os.path.exists(path):  # a fork has not joined
            return
        with _locked(path) as file:
            values: dict[str, bytes] = {}
            end = _read_records(file, 0, values)
            done = counter(values.get("done/", b"0")) + 1
            _append_record(file, end, "done/", str(done).encode())
            if 0 <= world_size <= done and counter(values.get("refcount/", b"0")) <= done:
                os.unlink(path)


class PrefixStore(Store):
    """Another store, with a prefix and a slash before each key.

    Args:
        prefix: the prefix.
        store: the store.
    """

    def __init__(self, prefix: str, store: Store) -> None:
        self._prefix, self._store = f"{as_key(prefix, 'PrefixStore')}/", store

    @property
    def underlying_store(self) -> Store:
        """Store that gets the longer keys."""
        return self._store

    @property
    def _underlying_non_prefix_store(self) -> Store:
        store: Store = self
        while isinstance(store, PrefixStore):
            store = store._store
        return store

    @property
    def timeout(self) -> timedelta:
        return self._store.timeout

    def set_timeout(self, timeout: timedelta) -> None:
        self._store.set_timeout(timeout)

    def _key(self, key: str) -> str:
        return self._prefix + as_key(key, "PrefixStore")

    def set(self, key: str, value: str | bytes) -> None:
        self._store.set(self._key(key), value)

    def get(self, key: str) -> bytes:
        return self._store.get(self._key(key))

    def add(self, key: str, value: int) -> int:
        return self._store.add(self._key(key), value)

    def check(self, keys: Sequence[str]) -> bool:
        return self._store.check(list(map(self._key, keys)))

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        longer = list(map(self._key, keys))
        if timeout is None:
            self._store.wait(longer)
        else:
            self._store.wait(longer, timeout)

    def compare_set(self, key: str, expected_value: str | bytes, desired_value: str | bytes) -> bytes:
        return self._store.compare_set(self._key(key), expected_value, desired_value)

    def delete_key(self, key: str) -> bool:
        return self._store.delete_key(self._key(key))

    def num_keys(self) -> int:
        return self._store.num_keys()

    def list_keys(self) -> list[str]:
        found = self._store.list_keys()
        return [key.removeprefix(self._prefix) for key in found if key.startswith(self._prefix)]

    def append(self, key: str, value: str | bytes) -> None:
        self._store.append(self._key(key), value)

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        return self._store.multi_get(list(map(self._key, keys)))

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        self._store.multi_set(list(map(self._key, keys)), values)

    def has_extended_api(self) -> bool:
        return self._store.has_extended_api()

    def queue_push(self, key: str, value: str | bytes) -> None:
        self._store.queue_push(self._key(key), value)

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        return self._store.queue_pop(self._key(key), block)

    def queue_len(self, key: str) -> int:
        return self._store.queue_len(self._key(key))

    def clone(self) -> PrefixStore:
        return PrefixStore(self._prefix.removesuffix("/"), self._store.clone())
