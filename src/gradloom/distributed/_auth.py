"""Prove that both ends of a connection know the job's key.

Note [The job's key]

Ranks send each other pickled objects, and unpickling runs code. So whatever connects to a store or to another rank must
first prove that it knows the job's key, and nothing that it sent is read before that. The proof is a challenge in both
directions: each end sends 32 random bytes, and answers with an HMAC-SHA256 of both ends' bytes under the key.

The key is, in this order:

1. `GRADLOOM_JOB_KEY` of the environment. `torchrun` makes a random one for its workers on one machine; for several
   machines it must be set to the same text on each before the launcher starts.
2. A secret of the user: 32 random bytes in `gradloom/job_key` of the user's cache folder (`XDG_CACHE_HOME`, or
   ~/.cache), which only the user may read, made when first needed. Machines that share the home folder share it.
3. Where that folder cannot be made, such a secret in `gradloom-UID` of the folder of temporary files, which must belong
   to the user alone. Other machines do not have it, so both ends of a connection beyond loopback refuse it.

Each key is random or the user's own: nobody can compute it. A file or folder that is there but that others may read or
have written, or that is not what it should be, is an error, never a reason to take the next key.

The proof keeps strangers from connecting. It neither hides what is sent nor notices that somebody on the way alters it:
a network that others can write to needs a tunnel.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import socket
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from .errors import DistNetworkError, seconds_until

VARIABLE = "GRADLOOM_JOB_KEY"
_MAGIC = b"gradloom1\n"
_SIZE = 32
PATIENCE = 20.0  # seconds that a peer has for its proof
STRANGERS = 256  # connections at a time that have not proved anything yet; others are closed, and may try again
_MISMATCH = (
    "{peer} does not know this job's key, so it was refused. Set GRADLOOM_JOB_KEY to the same random text for all "
    "ranks (torchrun does so for the workers of one machine)"
)


class KeyRefused(DistNetworkError):
    """There is a file for the job's key, but it cannot be trusted."""


class NoAnswer(DistNetworkError):
    """A peer closed the connection before its proof was complete, or took too long."""


def new_key() -> str:
    """Return a random key for `GRADLOOM_JOB_KEY`."""
    return secrets.token_hex(_SIZE)


def job_key(*, beyond_loopback: bool = False) -> bytes:
    """Return this process's key of the job, 32 bytes. Note [The job's key]

    Args:
        beyond_loopback: refuse a key that other machines cannot have.

    Raises:
        KeyRefused: if others may know or have made the user's secret.
        DistNetworkError: if there is no key, or none that other machines can have.
    """
    if given := os.environ.get(VARIABLE):
        return hashlib.sha256(given.encode()).digest()
    try:
        return _secret(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gradloom")
    except (OSError, RuntimeError) as error:  # RuntimeError: of Path.home
        if isinstance(error, KeyRefused):
            raise
        if beyond_loopback:
            raise DistNetworkError(
                f"There is no secret for connections beyond this machine ({error}): set GRADLOOM_JOB_KEY to the same "
                "random text for all ranks"
            ) from error
    try:
        return _secret(_private_folder())
    except OSError as error:
        raise DistNetworkError(
            f"There is no place for a secret of this user ({error}): set GRADLOOM_JOB_KEY to the same random text for "
            "all ranks"
        ) from error


def _private_folder() -> Path:
    """Return a folder for temporary files that belongs to this user alone."""
    folder = Path(tempfile.gettempdir()) / f"gradloom-{os.getuid() if hasattr(os, 'getuid') else 'key'}"
    with suppress(FileExistsError):
        folder.mkdir(0o700)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or not _is_own(status):
        raise _refused(folder, "is not a folder of this user alone")
    return folder


def _secret(folder: Path) -> bytes:
    """Return the secret in a folder, made if there is none."""
    path = folder / "job_key"
    if not os.path.lexists(path):
        folder.mkdir(parents=True, exist_ok=True)
        mine = folder / f".job_key.{os.getpid()}.{secrets.token_hex(4)}"
        with open(os.open(mine, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secrets.token_bytes(_SIZE))
        try:
            os.link(mine, path)  # fails if another process was first
        except FileExistsError:
            pass
        finally:
            mine.unlink()
    # The open file is checked, not its name, which may lead elsewhere a moment later.
    flags = sum(getattr(os, name, 0) for name in ("O_BINARY", "O_NOFOLLOW", "O_NONBLOCK"))
    try:
        descriptor = os.open(path, os.O_RDONLY | flags)
    except OSError as error:
        raise _refused(path, f"cannot be read ({error.strerror})") from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or not _is_own(status):
            raise _refused(path, "may have been read or written by others")
        secret = os.read(descriptor, _SIZE + 1)
    finally:
        os.close(descriptor)
    if len(secret) != _SIZE:
        raise _refused(path, f"does not have {_SIZE} bytes")
    return secret


def _is_own(status: os.stat_result) -> bool:
    """Return whether a file belongs to this user, and nobody else may open it."""
    return not hasattr(os, "getuid") or (status.st_uid == os.getuid() and not status.st_mode & 0o077)


def _refused(path: Path, why: str) -> KeyRefused:
    return KeyRefused(
        f"The job's key in {path} {why}, so it is not used. Remove it, and a new one is made; or set GRADLOOM_JOB_KEY "
        "to the same random text for all ranks"
    )


def prove(connection: socket.socket, key: bytes, *, server: bool, deadline: float | None = None) -> None:
    """Exchange proofs over a new connection. The connection blocks afterwards.

    Args:
        connection: a connected socket.
        key: from `job_key`.
        server: whether this end accepted the connection.
        deadline: time of `time.monotonic`; 20 seconds from now if None.

    Raises:
        NoAnswer: if the peer does not answer in time.
        DistNetworkError: if it does not know the key.
    """
    peer = _named(connection)
    end = min(time.monotonic() + PATIENCE, float("inf") if deadline is None else deadline)
    mine = secrets.token_bytes(_SIZE)
    try:
        _send(connection, _MAGIC + mine, end)
        greeting = receive(connection, len(_MAGIC) + _SIZE, end)
        if not greeting.startswith(_MAGIC):
            raise DistNetworkError(f"{peer} is no peer of gradloom")
        theirs = greeting[len(_MAGIC) :]
        both = (mine + theirs) if server else (theirs + mine)  # the server's bytes first
        roles = (b"server", b"client") if server else (b"client", b"server")
        _send(connection, hmac.digest(key, roles[0] + both, "sha256"), end)
        answer = receive(connection, _SIZE, end)
    except (OSError, EOFError) as error:
        raise NoAnswer(f"{peer} did not prove that it knows the job's key: {error}") from error
    if not hmac.compare_digest(answer, hmac.digest(key, roles[1] + both, "sha256")):
        raise DistNetworkError(_MISMATCH.format(peer=peer))
    connection.settimeout(None)


def _send(connection: socket.socket, data: bytes, end: float) -> None:
    connection.settimeout(max(0.001, end - time.monotonic()))
    connection.sendall(data)


def receive(connection: socket.socket, count: int, deadline: float | None = None) -> bytes:
    """Read exactly `count` bytes.

    Raises:
        EOFError: if the connection ends before.
        TimeoutError: if the deadline passes.
    """
    found = bytearray()
    while len(found) < count:
        left = seconds_until(deadline)
        connection.settimeout(None if left is None else max(0.001, left))
        part = connection.recv(count - len(found))
        if not part:
            raise EOFError("the connection was closed")
        found += part
    return bytes(found)


def _named(connection: socket.socket) -> str:
    with suppress(OSError, ValueError):
        host, port = connection.getpeername()[:2]
        return f"The process at {host}:{port}"
    return "A process"
