"""How the ranks of a job find a common store: `env://`, `tcp://host:port`, `file:///path`, and other schemes."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from datetime import timedelta
from numbers import Integral
from typing import Any
from urllib.parse import ParseResult, parse_qsl, urlparse

from . import _auth
from ._backends import has_mpi, started_by_mpi
from ._tcp_store import TCPStore
from .errors import default_pg_timeout
from .stores import FileStore, Store

__all__ = ["register_rendezvous_handler", "rendezvous"]

_Found = tuple[Store, int, int]
_handlers: dict[str, Callable[..., Iterator[_Found]]] = {}


def register_rendezvous_handler(scheme: str, handler: Callable[..., Iterator[_Found]]) -> None:
    """Register what finds the store for URLs of a scheme.

    Args:
        scheme: part of the URL before "://".
        handler: generator function that takes a URL, with the rank and the number of ranks as its query, and `timeout`;
            it yields store, rank and number of ranks.

    Raises:
        RuntimeError: if the scheme has a handler.
    """
    if scheme in _handlers:
        raise RuntimeError(f"Rendezvous handler for {scheme}:// already registered")
    _handlers[scheme] = handler


def rendezvous(url: str, rank: int = -1, world_size: int = -1, **options: Any) -> Iterator[_Found]:
    """Return an iterator whose first value is store, rank and number of ranks.

    Args:
        url: where the ranks meet.
        rank: number of this process; -1 if the URL or the environment says it.
        world_size: number of processes; -1 likewise.
        options: `timeout`, the longest time to wait.

    Raises:
        RuntimeError: if the arguments have wrong types, or no handler knows the scheme.
        ValueError: if something is missing in the URL or the environment.
    """
    if not isinstance(url, (str, bytes)):
        raise RuntimeError(f"`url` must be a string. {type(url)}: {url}")
    if not isinstance(rank, Integral):
        raise RuntimeError(f"`rank` must be an integer. {rank}")
    if not isinstance(world_size, Integral):
        raise RuntimeError(f"`world_size` must be an integer. {world_size}")
    parts = urlparse(url)
    if rank != -1 or world_size != -1:
        query = dict(parse_qsl(parts.query))
        if "rank" in query or "world_size" in query:
            raise AssertionError(f"The url: {url} has node-specific arguments(rank, world_size) already.")
        for name, value in (("rank", rank), ("world_size", world_size)):
            if value != -1:
                query[name] = str(value)
        parts = parts._replace(query="&".join(f"{name}={value}" for name, value in query.items()))
    if parts.scheme not in _handlers:
        raise RuntimeError(f"No rendezvous handler for {parts.scheme}://")
    return _handlers[parts.scheme](parts.geturl(), **options)


def _error(scheme: str, text: str) -> ValueError:
    return ValueError(f"Error initializing torch.distributed using {scheme}:// rendezvous: {text}")


def _numbers(scheme: str, parts: ParseResult) -> tuple[int, int]:
    query = dict(parse_qsl(parts.query))
    if "rank" not in query:
        raise _error(scheme, "rank parameter missing")
    if "world_size" not in query:
        raise _error(scheme, "world size parameter missing")
    return int(query["rank"]), int(query["world_size"])


def _file(url: str, **options: Any) -> Iterator[_Found]:
    parts = urlparse(url)
    path = parts.path
    if os.name == "nt":
        from urllib.request import url2pathname

        path = url2pathname(parts.netloc + parts.path)
    if not path:
        raise _error("file", "path missing")
    rank, size = _numbers("file", parts)
    yield FileStore(path, size), rank, size
    raise RuntimeError("Unable to perform rerendezvous using file:// method")


def _tcp_store(host: str, port: int, rank: int, size: int, timeout: timedelta) -> TCPStore:
    """Return the store at an address: the launcher's, if it says that it serves one, else rank 0 serves it."""
    launched = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == str(True)
    return TCPStore(
        host, port, size, rank == 0 and not launched, timeout, multi_tenant=True, wait_for_workers=not launched
    )


def _tcp(url: str, timeout: timedelta = default_pg_timeout, **options: Any) -> Iterator[_Found]:
    parts = urlparse(url)
    if parts.port is None or parts.hostname is None:
        raise _error("tcp", "port number missing")
    rank, size = _numbers("tcp", parts)
    yield _tcp_store(parts.hostname, parts.port, rank, size, timeout), rank, size
    raise RuntimeError("Unable to perform re-rendezvous using tcp:// method")


def _env(url: str, timeout: timedelta = default_pg_timeout, **options: Any) -> Iterator[_Found]:
    query = dict(parse_qsl(urlparse(url).query))
    if not os.environ.get("RANK") and "rank" not in query and started_by_mpi() and has_mpi():
        yield _from_mpi(timeout)
    else:
        rank = int(query["rank"] if "rank" in query else _variable("RANK"))
        size = int(query["world_size"] if "world_size" in query else _variable("WORLD_SIZE"))
        yield _tcp_store(_variable("MASTER_ADDR"), int(_variable("MASTER_PORT")), rank, size, timeout), rank, size
    raise RuntimeError("Unable to perform re-rendezvous using env:// method")


def _variable(name: str) -> str:
    value = os.environ.get(name)
    if value:
        return value
    hint = ""
    if started_by_mpi():
        hint = '; MPI has started this process: with mpi4py (pip install "gradloom[distributed]") the ranks are MPI\'s'
    raise _error("env", f"environment variable {name} expected, but not set{hint}")


def _from_mpi(timeout: timedelta) -> _Found:
    """Return MPI's rank and size, and a store that rank 0 serves, with a key that MPI hands out."""
    from ._engines.mpi import _mpi

    world = _mpi().COMM_WORLD
    rank, size = world.Get_rank(), world.Get_size()
    hosts = world.allgather(socket.gethostname())
    os.environ[_auth.VARIABLE] = world.bcast(os.environ.get(_auth.VARIABLE) or _auth.new_key())
    host = "127.0.0.1" if len(set(hosts)) == 1 else hosts[0]
    # The server must listen before the others are told its port, and may fail to.
    server: Any = None
    if rank == 0:
        try:
            server = TCPStore(host, 0, size, True, timeout, wait_for_workers=False)
        except Exception as error:
            server = error
    port = world.bcast(server if isinstance(server, Exception) else server.port if server is not None else None)
    if isinstance(port, Exception):
        raise port
    return (server if rank == 0 else TCPStore(host, port, size, False, timeout, wait_for_workers=False)), rank, size


register_rendezvous_handler("tcp", _tcp)
register_rendezvous_handler("env", _env)
register_rendezvous_handler("file", _file)
