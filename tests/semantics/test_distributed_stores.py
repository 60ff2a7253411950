"""Stores of torch.distributed: values under names that several processes share."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from tests.waiting import LIMIT, Running

SHORT = timedelta(milliseconds=50)
KINDS = ["HashStore", "FileStore", "TCPStore", "PrefixStore"]


@pytest.fixture(params=KINDS)
def store(torch, request, tmp_path):
    dist = torch.distributed
    make = {
        "HashStore": dist.HashStore,
        "FileStore": lambda: dist.FileStore(str(tmp_path / "store"), 1),
        "TCPStore": lambda: dist.TCPStore("127.0.0.1", 0, 1, True, timedelta(seconds=LIMIT)),
        "PrefixStore": lambda: dist.PrefixStore("before", dist.HashStore()),
    }
    made = make[request.param]()
    made.set_timeout(SHORT)
    return made


def test_text_comes_back_as_bytes(torch, store):
    store.set("key", "value")
    assert store.get("key") == b"value"
    store.set("key", "other")
    assert store.get("key") == b"other"


def test_get_and_wait_end_with_an_error_after_the_timeout(torch, store):
    assert store.timeout == SHORT
    for call in (lambda: store.get("nothing"), lambda: store.wait(["nothing"]), lambda: store.wait(["nothing"], SHORT)):
        with pytest.raises(RuntimeError, match="(?i)timeout"):
            call()


def test_wait_ends_when_another_thread_sets_all_keys(torch, store):
    other = store.clone()  # PyTorch's TCPStore cannot be used while it waits
    setter = threading.Timer(0.02, lambda: (other.set("a", "1"), other.set("b", "2")))
    setter.start()
    waiting = Running(lambda: store.wait(["a", "b"], timedelta(seconds=LIMIT)))
    waiting.result()
    setter.join()
    assert store.check(["a", "b"]) and not store.check(["a", "c"])


def test_add_counts_and_is_stored_as_digits(torch, store):
    assert [store.add("count", n) for n in (1, 5, -8)] == [1, 6, -2]
    assert store.get("count") == b"-2"


def test_add_refuses_what_is_no_number(torch, store):
    if torch.__name__ == "torch" and "TCP" in type(store).__name__:
        pytest.skip("PyTorch's server ends")
    store.set("text", "value")
    with pytest.raises(ValueError, match="stoll"):
        store.add("text", 1)


def test_compare_set_replaces_only_what_is_expected(torch, store):
    assert store.compare_set("key", "", "first") == b"first"
    assert store.compare_set("key", "wrong", "second") == b"first"
    assert store.compare_set("key", "first", "second") == b"second"
    assert store.compare_set("other", "expected", "new") == b"expected"
    assert not store.check(["other"])


def test_delete_key_says_whether_it_was_there(torch, store):
    before = store.num_keys()
    store.set("key", "value")
    assert store.num_keys() == before + 1
    assert store.delete_key("key")
    assert "FileStore" in type(store).__name__ or not store.delete_key("key")  # PyTorch's FileStore says True again
    assert store.num_keys() == before


def test_several_keys_at_once(torch, store):
    store.multi_set(["a", "b"], ["1", "2"])
    assert store.multi_get(["b", "a"]) == [b"2", b"1"]
    store.append("a", "3")
    store.append("new", "4")
    assert store.multi_get(["a", "new"]) == [b"13", b"4"]
    assert {"a", "b", "new"} <= set(store.list_keys())


def test_queues(torch, store):
    if not store.has_extended_api():
        with pytest.raises(NotImplementedError):
            store.queue_push("queue", "value")
        return
    for value in ("first", "second"):
        store.queue_push("queue", value)
    assert store.queue_len("queue") == 2
    assert [store.queue_pop("queue"), store.queue_pop("queue")] == [b"first", b"second"]
    with pytest.raises(torch.distributed.QueueEmptyError):
        store.queue_pop("queue", False)
    with pytest.raises(torch.distributed.DistStoreError):
        store.queue_pop("queue")


def test_keys_and_values_have_types(torch, store):
    for arguments in ((1, "value"), ("key", 1)):
        with pytest.raises(TypeError):
            store.set(*arguments)


def test_a_prefix_keeps_keys_apart(torch):
    dist = torch.distributed
    base = dist.HashStore()
    store = dist.PrefixStore("outer", dist.PrefixStore("inner", base))
    store.set("key", "value")
    assert base.get("inner/outer/key") == b"value"
    assert store._underlying_non_prefix_store is base
    assert store.list_keys() == ["key"]


def test_a_client_sees_what_the_server_has(torch):
    dist = torch.distributed
    server = dist.TCPStore("127.0.0.1", 0, 2, True, timedelta(seconds=LIMIT), wait_for_workers=False)
    client = dist.TCPStore("127.0.0.1", server.port, 2, False, timedelta(seconds=LIMIT), wait_for_workers=False)
    client.set("key", "value")
    assert server.get("key") == b"value" and (client.host, client.port) == (server.host, server.port)


def test_a_server_that_lacks_clients_says_how_many_came(torch):
    with pytest.raises(RuntimeError, match=r"1/2 clients joined"):
        torch.distributed.TCPStore("127.0.0.1", 0, 2, True, timedelta(milliseconds=200))


def test_a_client_without_a_server_gives_up(torch):
    with pytest.raises(torch.distributed.DistNetworkError, match=r"timed out after 200ms"):
        torch.distributed.TCPStore("127.0.0.1", 1, 1, False, timedelta(milliseconds=200))
