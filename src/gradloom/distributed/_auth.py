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
3. Where that folder cannot be written, a hash of the user's name and the machine's. It keeps jobs apart that meet by
   mistake. It does not protect against somebody who wants in, so both ends of a connection beyond loopback refuse it.

The proof keeps strangers from connecting. It neither hides what is sent nor notices that somebody on the way alters it:
a network that others can write to needs a tunnel.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import socket
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


class NoAnswer(DistNetworkError):
    """A peer closed the connection before its proof was complete, or took too long."""


def new_key() -> str:
    """Return a random key for `GRADLOOM_JOB_KEY`."""
    return secrets.token_hex(_SIZE)


def job_key(*, beyond_loopback: bool = False) -> bytes:
    """Return this process's key of the job, 32 bytes. Note [The job's key]

    Args:
        beyond_loopback: refuse a key that can be guessed.

    Raises:
        DistNetworkError: if `beyond_loopback` and there is no better key.
    """
    if given := os.environ.get(VARIABLE):
        return hashlib.sha256(given.encode()).digest()
    try:
        return _user_secret()
    except (OSError, RuntimeError) as error:
        if beyond_loopback:
            raise DistNetworkError(
                f"There is no secret for connections beyond this machine ({error}): set GRADLOOM_JOB_KEY to the same "
                "random text for all ranks"
            ) from error
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "")
    return hashlib.sha256(f"gradloom {user} {socket.gethostname()}".encode()).digest()


def _user_secret() -> bytes:
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gradloom"
    path = folder / "job_key"
    if not path.exists():
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
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if hasattr(os, "getuid") and (status.st_uid != os.getuid() or status.st_mode & 0o077):
            raise RuntimeError(f"others may read or have written {path}")
        secret = file.read(_SIZE + 1)
    if len(secret) != _SIZE:
        raise RuntimeError(f"{path} does not have {_SIZE} bytes")
    return secret


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
