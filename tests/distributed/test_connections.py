"""Who may connect: peers that know the job's key, at the address that was asked for."""

from __future__ import annotations

import os
import pickle
import socket
import stat
import tempfile
import threading
import time
from contextlib import suppress
from datetime import timedelta
from functools import partial

import numpy as np
import pytest

import gradloom.distributed as dist
from gradloom.distributed import _auth, _tcp_server, _tcp_store
from gradloom.distributed._engines.sockets import SocketEngine
from gradloom.distributed._tcp_server import listen_on
from tests.waiting import LIMIT, forked, in_threads


def server() -> dist.TCPStore:
    return dist.TCPStore("127.0.0.1", 0, None, True, timedelta(seconds=LIMIT))


def test_a_client_with_another_key_is_refused_and_told_what_to_do(monkeypatch):
    monkeypatch.setenv(_auth.VARIABLE, "one")
    store = server()
    monkeypatch.setenv(_auth.VARIABLE, "another")
    with pytest.raises(dist.DistNetworkError, match="does not know this job's key.*Set GRADLOOM_JOB_KEY"):
        dist.TCPStore("127.0.0.1", store.port, None, False, timedelta(seconds=LIMIT))
    monkeypatch.setenv(_auth.VARIABLE, "one")
    client = dist.TCPStore("127.0.0.1", store.port, None, False, timedelta(seconds=LIMIT))
    client.set("key", "value")
    assert store.get("key") == b"value"


class Planted:
    """A pickle of it would say that it was loaded."""

    loaded = False

    def __reduce__(self):
        return setattr, (Planted, "loaded", True)


def test_what_a_stranger_sends_is_not_read(monkeypatch):
    monkeypatch.setenv(_auth.VARIABLE, "one")
    store = server()
    with socket.create_connection(("127.0.0.1", store.port), LIMIT) as stranger:
        greeting = _auth.receive(stranger, 42, time.monotonic() + LIMIT)
        stranger.sendall(greeting + pickle.dumps(Planted()) + b"x" * 1000)  # its own greeting, and no proof
        stranger.settimeout(LIMIT)
        while True:
            try:
                if not stranger.recv(4096):
                    break
            except ConnectionError:
                break
    store.set("key", "value")
    assert store.get("key") == b"value" and store.list_keys() == ["key"] and not Planted.loaded


def test_silent_strangers_hold_nobody_up(monkeypatch):
    """More connections that prove nothing than may be open: the next client still gets in when they are gone."""
    monkeypatch.setattr(_auth, "STRANGERS", 4)
    monkeypatch.setattr(_auth, "PATIENCE", 0.2)
    store = server()
    strangers = [socket.create_connection(("127.0.0.1", store.port), LIMIT) for _ in range(12)]
    client = dist.TCPStore("127.0.0.1", store.port, None, False, timedelta(seconds=LIMIT))
    client.set("key", "value")
    assert store.get("key") == b"value"
    for stranger in strangers:
        stranger.close()


REQUESTS = {
    "empty": b"",
    "a cut length": b"\x01",
    "a field that is too long": b"\xff\xff\xff\xff",
    "no method": b"\x03\0\0\0abc",
    "wait for how long": b"\x04\0\0\0wait",
    "no text": b"\x02\0\0\0\xff\xfe",
    "add without a key": b"\x03\0\0\0add",
}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_that_is_none_does_not_stop_the_server(name):
    store, body = server(), REQUESTS[name]
    with socket.create_connection(("127.0.0.1", store.port), LIMIT) as peer:
        _auth.prove(peer, _auth.job_key(), server=False)
        peer.sendall(_tcp_server.LENGTH.pack(len(body)) + body)
        peer.settimeout(LIMIT)
        assert peer.recv(4096)[8:13] in (b"", b"error")  # after the lengths of answer and field
    store.set("key", "value")
    assert store.get("key") == b"value"


def test_a_request_of_a_gigabyte_is_refused_at_its_length():
    store = server()
    with socket.create_connection(("127.0.0.1", store.port), LIMIT) as peer:
        _auth.prove(peer, _auth.job_key(), server=False)
        peer.sendall(_tcp_server.LENGTH.pack(2**32 - 1))
        peer.settimeout(LIMIT)
        assert peer.recv(4096) == b""


def test_ranks_connect_while_strangers_are_silent():
    """A rank that accepts connections gets them from its peers, however many others say nothing or lie."""
    store, addresses = dist.HashStore(), []
    held: list[socket.socket] = []

    class Watched:
        """A store through which strangers come before the ranks."""

        def set(self, key, value):
            if key.startswith("address/0"):
                host, port = value.split()
                held.extend(socket.create_connection((host, int(port)), LIMIT) for _ in range(5))
                held[0].sendall(b"GET / HTTP/1.1\r\n\r\n" + b"x" * 100)
                liar = socket.create_connection((host, int(port)), LIMIT)
                held.append(liar)
                threading.Thread(target=lie, args=(liar,), daemon=True).start()  # answered when the rank accepts
                addresses.append(port)
            store.set(key, value)

        def get(self, key):
            return store.get(key)

    def lie(connection):
        """Know the key, but be no rank of the group."""
        with suppress(dist.DistNetworkError, OSError):  # the ranks may be done before
            _auth.prove(connection, _auth.job_key(), server=False)
            connection.sendall((7).to_bytes(8, "little"))

    end = time.monotonic() + LIMIT
    engines = in_threads(*[partial(SocketEngine, Watched(), rank, 3, end) for rank in range(3)])
    arrays = [np.full(3, float(rank)) for rank in range(3)]
    in_threads(*[partial(engine.allreduce, array, "sum", end) for engine, array in zip(engines, arrays, strict=True)])
    assert all((array == 3).all() for array in arrays) and addresses
    for one in [*engines, *held]:
        one.close()


@pytest.mark.parametrize("keys", [("same", "same"), ("one", "another")])
def test_both_ends_prove_the_key(keys):
    ends = socket.socketpair()
    made = [key.encode().ljust(32) for key in keys]

    def prove(number):
        try:
            _auth.prove(ends[number], made[number], server=not number)
        except dist.DistNetworkError as error:
            return str(error)
        return "proved"

    found = in_threads(lambda: prove(0), lambda: prove(1))
    for end in ends:
        end.close()
    assert all((text == "proved") == (keys[0] == keys[1]) for text in found), found


def test_a_proof_cannot_be_sent_back():
    """Who answers with what it was sent, as a mirror does, has proved nothing."""
    near, far = socket.socketpair()

    def mirror():
        try:
            while data := far.recv(4096):
                far.sendall(data)
        except OSError:
            pass

    def prove():
        try:
            with pytest.raises(dist.DistNetworkError, match="does not know this job's key"):
                _auth.prove(near, b"k" * 32, server=True)
        finally:
            near.close()

    in_threads(prove, mirror)
    far.close()


@pytest.fixture
def homes(monkeypatch, tmp_path):
    """Return the folders in which the user's secret may be: of the cache, and of temporary files."""
    monkeypatch.delenv(_auth.VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    return tmp_path / "cache/gradloom", tmp_path / "temporary" / f"gradloom-{os.getuid()}"


def replace_by_link(path):
    path.rename(path.with_name("other"))
    path.symlink_to("other")


def replace_by_pipe(path):
    path.unlink()
    os.mkfifo(path, 0o600)


def replace_by_folder(path):
    path.unlink()
    path.mkdir(0o700)


SPOILED = {
    "others may read it": lambda path: path.chmod(0o604),
    "the group may read it": lambda path: path.chmod(0o640),
    "others may write it": lambda path: path.chmod(0o602),
    "another owner": lambda path: os.chown(path, 12345, -1),
    "too short": lambda path: path.write_bytes(b"0" * 31),
    "too long": lambda path: path.write_bytes(b"0" * 33),
    "empty": lambda path: path.write_bytes(b""),
    "link": replace_by_link,
    "pipe": replace_by_pipe,
    "folder": replace_by_folder,
}


@pytest.mark.skipif(os.name != "posix", reason="modes of files are Unix's")
def test_the_users_secret_is_theirs_alone(homes):
    first = _auth.job_key()
    path = homes[0] / "job_key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and path.read_bytes() == first and len(first) == 32
    assert _auth.job_key() == _auth.job_key(beyond_loopback=True) == first


@pytest.mark.skipif(os.name != "posix", reason="modes of files are Unix's")
@pytest.mark.parametrize("where", [0, 1])
@pytest.mark.parametrize("fault", SPOILED)
def test_a_secret_that_others_may_know_is_refused_on_loopback_too(homes, fault, where):
    if fault == "another owner" and os.getuid():
        pytest.skip("only root can give files away")
    if where:
        homes[0].parent.write_bytes(b"")  # no folder: there can be no secret
    _auth.job_key()
    path = homes[where] / "job_key"
    SPOILED[fault](path)
    for beyond_loopback in (False, True) if not where else (False,):
        with pytest.raises(_auth.KeyRefused, match=f"{path}.*Remove it.*GRADLOOM_JOB_KEY"):
            _auth.job_key(beyond_loopback=beyond_loopback)
    with pytest.raises(_auth.KeyRefused):
        server()
    with pytest.raises(_auth.KeyRefused):  # though there is no server
        dist.TCPStore("127.0.0.1", 1, None, False, timedelta(seconds=LIMIT))


@pytest.mark.skipif(os.name != "posix", reason="modes of files are Unix's")
def test_without_a_home_the_secret_is_in_a_folder_of_the_users_own(homes):
    homes[0].parent.write_bytes(b"")
    first = _auth.job_key()
    assert stat.S_IMODE(homes[1].stat().st_mode) == 0o700
    assert (homes[1] / "job_key").read_bytes() == first == _auth.job_key()
    store = server()
    dist.TCPStore("127.0.0.1", store.port, None, False, timedelta(seconds=LIMIT)).set("key", "value")
    assert store.get("key") == b"value"


@pytest.mark.skipif(os.name != "posix", reason="modes of files are Unix's")
@pytest.mark.parametrize("fault", ["mode", "owner", "link", "file"])
def test_a_folder_for_the_secret_that_others_made_is_refused(homes, fault):
    homes[0].parent.write_bytes(b"")
    if fault == "owner" and os.getuid():
        pytest.skip("only root can give files away")
    if fault == "file":
        homes[1].write_bytes(b"")
    elif fault == "link":
        homes[1].with_name("other").mkdir(0o700)
        homes[1].symlink_to("other")
    else:
        homes[1].mkdir(0o777)
        homes[1].chmod(0o777 if fault == "mode" else 0o700)
    if fault == "owner":
        os.chown(homes[1], 12345, -1)
    with pytest.raises(_auth.KeyRefused, match="not a folder of this user alone"):
        _auth.job_key()


@pytest.mark.skipif(os.name != "posix", reason="modes of files are Unix's")
def test_without_any_place_for_a_secret_there_is_no_key(homes, monkeypatch):
    homes[0].parent.write_bytes(b"")
    monkeypatch.setattr(tempfile, "tempdir", str(homes[0].parent))
    with pytest.raises(dist.DistNetworkError, match="no place for a secret.*set GRADLOOM_JOB_KEY"):
        _auth.job_key()


@pytest.mark.skipif(os.name != "posix", reason="modes of files are Unix's")
def test_a_secret_that_is_exchanged_after_the_check_is_not_read(monkeypatch, tmp_path):
    monkeypatch.delenv(_auth.VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = _auth.job_key()
    path = tmp_path / "gradloom/job_key"
    fstat, checked = os.fstat, []

    def exchange(descriptor):
        checked.append(fstat(descriptor))
        other = tmp_path / "other"
        other.write_bytes(b"0" * 32)
        other.replace(path)
        return checked[-1]

    monkeypatch.setattr(os, "fstat", exchange)
    found = _auth.job_key()
    monkeypatch.undo()
    assert checked and path.read_bytes() == b"0" * 32
    assert found == first


@pytest.mark.skipif(os.name != "posix", reason="modes of files are Unix's")
def test_a_key_that_only_this_machine_has_is_refused_by_both_ends_beyond_loopback(homes, monkeypatch):
    homes[0].parent.write_bytes(b"")
    store = server()
    for module in (_tcp_server, _tcp_store):
        monkeypatch.setattr(module, "is_loopback", lambda host: False)
    with pytest.raises(dist.DistNetworkError, match="set GRADLOOM_JOB_KEY"):
        dist.TCPStore("127.0.0.1", store.port, None, False, timedelta(seconds=LIMIT))
    with pytest.raises(dist.DistNetworkError, match="set GRADLOOM_JOB_KEY"):
        server()


def test_a_server_listens_only_where_it_was_asked_to(monkeypatch):
    store = server()
    assert store._server._listener.getsockname()[0] == "127.0.0.1"
    with pytest.raises(dist.DistNetworkError, match="GRADLOOM_LISTEN_ADDRESS"):
        listen_on("192.0.2.1", 0)  # of the block for examples: no machine's own
    monkeypatch.setenv("GRADLOOM_LISTEN_ADDRESS", "127.0.0.1")
    with listen_on("192.0.2.1", 0) as listener:
        assert listener.getsockname()[0] == "127.0.0.1"


@pytest.mark.skipif(os.name != "posix", reason="owners and links of files are Unix's")
def test_a_file_store_refuses_files_that_others_may_write_and_links(tmp_path):
    path = tmp_path / "store"
    dist.FileStore(str(path)).set("key", "value")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for mode in (0o666, 0o660, 0o602):
        path.chmod(mode)
        with pytest.raises(dist.DistStoreError, match="another user can write"):
            dist.FileStore(str(path))
    path.chmod(0o644)
    assert dist.FileStore(str(path)).get("key") == b"value"
    link = tmp_path / "link"
    link.symlink_to(path)
    with pytest.raises(dist.DistStoreError, match="may not be a symbolic link"):
        dist.FileStore(str(link))


@pytest.mark.parametrize("content", [b"import gradloom as torch\n" * 3, b"\xff" * 64])
def test_a_file_store_leaves_other_files_alone(tmp_path, content):
    path = tmp_path / "program.py"
    path.write_bytes(content)
    with pytest.raises(dist.DistStoreError, match=r"program\.py is no file of a FileStore"):
        dist.FileStore(str(path))
    assert path.read_bytes() == content


def test_a_record_that_was_cut_off_is_written_again(tmp_path):
    path = tmp_path / "store"
    store = dist.FileStore(str(path))
    store.set("key", "value")
    with open(path, "ab") as file:
        file.write(b"\x03" + bytes(15) + b"ke")  # of its writer, which was killed
    store.set("other", "value")
    assert dist.FileStore(str(path)).list_keys() == ["key", "other"]


@pytest.mark.skipif(os.name != "posix", reason="needs fork")
def test_a_fork_that_ends_does_not_release_its_parents_file_store(tmp_path):
    path = tmp_path / "store"
    store = dist.FileStore(str(path), 1)

    def release() -> int:
        store.close()
        return 0

    assert forked(release) == 0 and path.exists()
    store.close()
    assert not path.exists()
