"""DataPipes: steps, the graph that they make, and what a DataLoader does with them."""

import copy
import os
import pickle
import warnings
from functools import partial
from importlib import import_module

import pytest

from tests.waiting import LIMIT

pytestmark = pytest.mark.filterwarnings("ignore:(Local|Lambda) function is not supported by pickle")


def pipes(torch, kind="iter"):
    return import_module(f"{torch.__name__}.utils.data.datapipes.{kind}")


def numbers(torch, count=10):
    return pipes(torch).IterableWrapper(range(count))


def odd(x):
    return x % 2 == 1


def parity(x):
    return x % 2


def plus(x, y=0):
    return x + y


def test_steps_are_methods_under_their_functional_names(torch):
    source = numbers(torch)
    assert list(source.map(plus).filter(odd)) == [1, 3, 5, 7, 9]
    assert list(source.batch(4)) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert list(source.batch(4, drop_last=True)) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert [len(source.batch(4)), len(source.batch(4, drop_last=True)), len(source.map(plus))] == [3, 2, 10]
    assert {"map", "batch", "shuffle", "zip"} <= set(dir(source)) and repr(source.batch(2)) == "BatcherIterDataPipe"
    with pytest.raises(AttributeError, match="'IterableWrapperIterDataPipe' object has no attribute 'nothing"):
        source.nothing  # noqa: B018
    with pytest.raises(TypeError, match="FilterIterDataPipe' has no len|has no len"):
        len(source.filter(odd))


def test_columns_of_examples(torch):
    rows = pipes(torch).IterableWrapper([(1, 2, 3), (4, 5, 6)])
    assert list(rows.map(plus, input_col=1)) == [(1, 2, 3), (4, 5, 6)]
    assert list(rows.map(plus, input_col=[2, 0])) == [(2, 4), (5, 10)]
    assert list(rows.map(plus, input_col=(0, 1), output_col=-1)) == [(1, 2, 3, 3), (4, 5, 6, 9)]
    named = pipes(torch).IterableWrapper([{"a": 1}, {"a": 2}])
    assert list(named.map(partial(plus, y=1), input_col="a", output_col="b")) == [{"a": 1, "b": 2}, {"a": 2, "b": 3}]
    assert list(named.filter(odd, input_col="a")) == [{"a": 1}]
    with pytest.raises(ValueError, match="`output_col` must be None when `input_col` is None."):
        rows.map(plus, output_col=1)
    with pytest.raises(ValueError, match="The function plus takes 2 parameters, but 3 are required."):
        rows.map(plus, input_col=[0, 1, 2])
    with pytest.raises(ValueError, match="takes 1 non-default keyword-only parameters"):
        rows.map(lambda x, *, y: x)
    with pytest.raises(ValueError, match=r"takes 2 positional parameters, but 1 are required."):
        rows.map(lambda x, y: x)


def test_lists_are_undone_up_to_a_level(torch):
    nested = pipes(torch).IterableWrapper([[[0, 1], [2]], [[3], 4]])
    assert list(nested.unbatch()) == [[0, 1], [2], [3], 4]
    assert list(nested.unbatch(-1)) == [0, 1, 2, 3, 4]
    with pytest.raises(IndexError, match="unbatch_level 2 exceeds the depth of the DataPipe"):
        list(nested.unbatch(2))
    with pytest.raises(ValueError, match="unbatch_level must be -1 or >= 0"):
        list(nested.unbatch(-2))


def test_groups(torch):
    files = pipes(torch).IterableWrapper(["a.png", "b.png", "a.json", "b.json", "a.jpg", "c.json"])
    key = lambda name: name.split(".")[0]  # noqa: E731
    assert list(files.groupby(key)) == [["a.png", "a.json", "a.jpg"], ["b.png", "b.json"], ["c.json"]]
    assert list(files.groupby(key, group_size=2, keep_key=True))[0] == ("a", ["a.png", "a.json"])
    full = files.groupby(key, buffer_size=3, group_size=3, guaranteed_group_size=2)
    assert list(full) == [["a.png", "a.json"], ["b.png", "b.json"], ["a.jpg"], ["c.json"]]
    dropped = files.groupby(key, buffer_size=2, group_size=2, drop_remaining=True)
    assert list(dropped) == [["c.json"]]
    with pytest.raises(RuntimeError) as error:
        list(files.groupby(key, buffer_size=2, group_size=2))
    assert error.value.args[1] == "['a.png']"
    with pytest.raises(AssertionError, match="group_size must be > 0 and <= buffer_size"):
        files.groupby(key, group_size=0)


def test_several_pipes_become_one(torch):
    one, two = numbers(torch, 3), pipes(torch).IterableWrapper(range(10, 15))
    assert list(one.zip(two)) == [(0, 10), (1, 11), (2, 12)] and len(one.zip(two)) == 3
    assert list(one.concat(two)) == [0, 1, 2, 10, 11, 12, 13, 14] and len(one.concat(two)) == 8
    assert list(one.mux(two)) == [0, 10, 1, 11, 2, 12] and len(one.mux(two)) == 6
    with pytest.raises(TypeError, match="All inputs are required to be `IterDataPipe` for `ZipIterDataPipe`."):
        one.zip([1])
    with pytest.raises(ValueError, match="Expected at least one DataPipe, but got nothing"):
        pipes(torch).Concater()
    with pytest.raises(TypeError, match="ConcaterIterDataPipe instance doesn't have valid length"):
        len(one.concat(two.filter(odd)))


def test_one_pipe_becomes_several(torch):
    one, two, three = numbers(torch, 5).fork(3)
    assert list(zip(one, two, strict=True)) == [(i, i) for i in range(5)] and list(three) == list(range(5))
    even, uneven = numbers(torch, 7).demux(2, parity)
    assert list(uneven) == [1, 3, 5] and list(even) == [0, 2, 4, 6]
    source = numbers(torch)
    assert source.fork(1) is source and len(one) == 5
    with pytest.raises(TypeError):
        len(even)
    with pytest.raises(ValueError, match="Expected `num_instances` larger than 0, but 0 is found"):
        source.fork(0)
    with pytest.raises(ValueError, match="between 0 and 1. 3 is returned."):
        list(source.demux(2, lambda x: 3)[0])
    kept = source.demux(1, lambda x: 0 if x > 7 else None, drop_none=True)[0]
    assert list(kept) == [8, 9]


def test_buffers_of_forks_have_a_limit(torch):
    one, two = numbers(torch).fork(2, buffer_size=4)
    ahead = iter(one)
    assert [next(ahead) for _ in range(4)] == [0, 1, 2, 3]
    with pytest.raises(BufferError, match="buffer overflow"):
        next(ahead)
    even, _ = numbers(torch).demux(2, parity, buffer_size=2)
    with pytest.raises(BufferError, match="DemultiplexerIterDataPipe buffer overflow, buffer size 2 is insufficient."):
        list(even)
    with pytest.warns(UserWarning, match="Unlimited buffer size is set for `fork`"):
        one, two = numbers(torch).fork(2, buffer_size=-1)
    assert list(one) == list(two)
    lists = pipes(torch).IterableWrapper([[1], [2]])
    one, two = lists.fork(2, copy="deep")
    assert all(a == b and a is not b for a, b in zip(one, two, strict=True))


def test_only_the_newest_iterator_is_valid(torch):
    source = numbers(torch)
    first = iter(source)
    assert next(first) == 0
    second = iter(source)
    assert next(second) == 0
    with pytest.raises(RuntimeError, match="This iterator has been invalidated because another iterator has been"):
        next(first)
    one, two = numbers(torch).fork(2)
    of_one, of_two = iter(one), iter(two)
    assert next(of_one) == next(of_two) == 0
    with pytest.warns(UserWarning, match="Some child DataPipes are not exhausted when __iter__ is called."):
        again = iter(one)
    with pytest.raises(RuntimeError, match="created from one of the ChildDataPipes of _ForkerIterDataPipe"):
        next(of_two)
    assert list(again) == list(range(10)) and list(two) == list(range(10))


def test_errors_name_the_pipe(torch):
    with pytest.raises(ZeroDivisionError) as error:
        list(numbers(torch).map(lambda x: 1 // x).batch(2))
    text = str(error.value)
    assert "\nThis exception is thrown by __iter__ of MapperIterDataPipe(datapipe=IterableWrapperIterDataPipe, " in text
    assert text.count("thrown by") == 1
    with pytest.raises(ValueError, match="Boolean output is required"):
        list(numbers(torch).filter(parity))


@pytest.mark.parametrize("size", [1, 4, 100])
def test_shuffles_repeat_for_a_seed(torch, size):
    wanted = {1: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], 4: [3, 4, 0, 2, 5, 8, 7, 1, 9, 6], 100: [6, 7, 0, 3, 8, 5, 9, 2, 4, 1]}
    shuffled = numbers(torch).shuffle(buffer_size=size)
    first = list(shuffled.set_seed(0))
    assert list(shuffled.set_seed(0)) == first == wanted[size]
    torch.manual_seed(3)
    drawn = list(shuffled)
    torch.manual_seed(3)
    assert list(shuffled) == drawn
    assert list(shuffled.set_shuffle(False)) == list(range(10))
    with pytest.raises(AssertionError, match="buffer_size should be larger than 0"):
        numbers(torch).shuffle(buffer_size=0)


def test_map_style_pipes(torch):
    made = pipes(torch, "map")
    source = made.SequenceWrapper(range(5))
    assert list(source.map(odd)) == [False, True, False, True, False] and source.map()[2] == 2
    assert list(source.batch(2)) == [[0, 1], [2, 3], [4]] and len(source.batch(2, drop_last=True)) == 2
    both = source.concat(made.SequenceWrapper("ab"))
    assert list(both) == [0, 1, 2, 3, 4, "a", "b"] and len(both) == 7
    assert list(source.zip(made.SequenceWrapper("ab"))) == [(0, "a"), (1, "b")]
    assert list(source.shuffle().set_seed(0)) == [2, 1, 0, 4, 3] and len(source.shuffle()) == 5
    assert made.SequenceWrapper({"a": 100})["a"] == 100
    with pytest.raises(IndexError, match="Index 9 is out of range."):
        both[9]
    with pytest.raises(IndexError, match="Index 3 is out of bound."):
        source.batch(2)[3]
    with pytest.raises(TypeError, match="Expected all inputs to be `MapDataPipe`"):
        source.zip([1])


def test_a_class_becomes_a_method(torch):
    data = torch.utils.data

    class Twice(data.IterDataPipe):
        def __init__(self, source, times=2):
            self.source, self.times, self.resets = source, times, 0

        def __iter__(self):
            for value in self.source:
                yield value * self.times

        def reset(self):
            self.resets += 1

    name = f"twice_{torch.__name__}"
    data.functional_datapipe(name)(Twice)
    made = getattr(numbers(torch, 3), name)(3)
    assert isinstance(made, Twice) and list(made) == list(made) == [0, 3, 6] and made.resets == 2
    with pytest.raises(Exception, match=f"Unable to add DataPipe function name {name} as it is already taken"):
        data.functional_datapipe(name)(Twice)

    class Counter(data.IterDataPipe):
        def __iter__(self):
            self.at = 0
            return self

        def __next__(self):
            self.at += 1
            if self.at > 3:
                raise StopIteration
            return self.at

    counter = Counter()
    assert list(counter) == [1, 2, 3] and counter._number_of_samples_yielded == 3
    assert list(counter.map(plus)) == [1, 2, 3]


def test_order_that_is_not_determined_can_be_refused(torch):
    data = torch.utils.data

    @data.non_deterministic
    class Any(data.IterDataPipe):
        def __iter__(self):
            yield 1

    @data.non_deterministic(lambda ordered=True: not ordered)
    class Some(data.IterDataPipe):
        def __init__(self, ordered=True):
            self.ordered = ordered

        def __iter__(self):
            yield 2

    assert list(Any()) == [1]
    with data.guaranteed_datapipes_determinism():
        assert list(Some()) == [2]
        with pytest.raises(TypeError, match="Any is non-deterministic, but you set 'guaranteed_datapipes_determinism'"):
            Any()
        with pytest.raises(TypeError, match="Some is non-deterministic with the inputs"):
            Some(ordered=False)
    assert list(Some(ordered=False)) == [2]


def test_files(torch, tmp_path):
    for name, text in (("b.txt", "two"), ("a.txt", "one"), ("c.json", "[1, 2]"), ("sub/d.txt", "four")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    made = pipes(torch)
    listed = made.FileLister(str(tmp_path), "*.txt", recursive=True)
    assert [os.path.relpath(path, tmp_path) for path in listed] == ["a.txt", "b.txt", os.path.join("sub", "d.txt")]
    read = made.FileLister(str(tmp_path), ["*.txt"]).open_files(mode="b").read_from_stream(2)
    assert [content for _, content in read] == [b"on", b"e", b"tw", b"o"]
    with pytest.warns(FutureWarning, match="RoutedDecoderIterDataPipe"):
        decoded = made.FileLister(str(tmp_path)).open_files(mode="rb").routed_decode()
    assert [content for _, content in decoded] == ["one", "two", [1, 2]]
    opened = made.FileOpener([str(tmp_path / "a.txt")])
    (_, stream), *_ = opened
    assert repr(stream).startswith("StreamWrapper<<") and stream.read() == "one"
    stream.close()
    assert stream.closed
    with pytest.raises(ValueError, match="Invalid mode w"):
        made.FileOpener([], mode="w")


def test_the_graph_of_a_pipe(torch):
    graph = import_module(f"{torch.__name__}.utils.data.graph")
    settings = import_module(f"{torch.__name__}.utils.data.graph_settings")
    source = numbers(torch)
    one, two = source.fork(2)
    last = one.map(lambda x: x).zip(two.shuffle()).batch(2)
    found = graph.traverse_dps(last)
    assert list(found) == [id(last)] and found[id(last)][0] is last
    names = [repr(pipe) for pipe in settings.get_all_graph_pipes(found)]
    assert names == [
        "BatcherIterDataPipe",
        "ZipperIterDataPipe",
        "MapperIterDataPipe",
        "_ChildDataPipe",
        "_ForkerIterDataPipe",
        "IterableWrapperIterDataPipe",
        "ShufflerIterDataPipe",
        "_ChildDataPipe",
    ]
    with pytest.raises(RuntimeError, match="Expected `IterDataPipe` or `MapDataPipe`"):
        graph.traverse_dps([1])
    with pytest.warns(UserWarning, match="does not contain a `Shuffler`. Adding one at the end."):
        added = settings.apply_shuffle_settings(numbers(torch), shuffle=True)
    assert repr(added) == "ShufflerIterDataPipe"
    with pytest.raises(RuntimeError, match="Sharding twice on a single pipeline"):
        settings.apply_sharding(numbers(torch).sharding_filter().sharding_filter(), 2, 0)


def test_shares(torch):
    settings = import_module(f"{torch.__name__}.utils.data.graph_settings")
    priorities = import_module(f"{torch.__name__}.utils.data.datapipes.iter.sharding").SHARDING_PRIORITIES
    shared = numbers(torch).sharding_filter().map(plus)
    settings.apply_sharding(shared, 3, 1)
    assert list(shared) == [1, 4, 7] and len(shared) == 3
    with pytest.raises(RuntimeError, match="ShardingFilter cannot mix DEFAULT and non DEFAULT groups"):
        settings.apply_sharding(shared, 2, 1, sharding_group=priorities.DISTRIBUTED)
    shared = numbers(torch).sharding_filter()
    settings.apply_sharding(shared, 2, 1, sharding_group=priorities.DISTRIBUTED)
    settings.apply_sharding(shared, 3, 2, sharding_group=priorities.MULTIPROCESSING)
    assert list(shared) == [5]
    with pytest.raises(ValueError, match=r"instance_id\(2\) should be smaller than num_of_instances\(2\)"):
        shared.apply_sharding(2, 2)


def loaded(torch, pipe, epochs=2, **options):
    torch.manual_seed(0)
    loader = torch.utils.data.DataLoader(pipe, **options)
    return [[batch.tolist() if isinstance(batch, torch.Tensor) else batch for batch in loader] for _ in range(epochs)]


ORDERS = [[9, 0, 5, 7, 4, 1, 3, 8, 6, 2], [6, 8, 1, 3, 4, 0, 2, 5, 7, 9]]


def test_a_loader_seeds_the_pipes(torch):
    assert loaded(torch, numbers(torch).shuffle(), batch_size=None, shuffle=True) == ORDERS
    assert loaded(torch, numbers(torch).shuffle(), batch_size=None, shuffle=False) == [list(range(10))] * 2
    assert loaded(torch, numbers(torch).shuffle(), batch_size=5)[0] == [ORDERS[0][:5], ORDERS[0][5:]]
    wrapped = pipes(torch, "map").SequenceWrapper(range(6)).map(plus)
    assert loaded(torch, wrapped, 1, batch_size=3) == [[[0, 1, 2], [3, 4, 5]]]
    loader = torch.utils.data.DataLoader(numbers(torch).batch(4), batch_size=None)
    assert len(loader) == 3 and [list(batch) for batch in loader] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the functions of this file can only be forked")
@pytest.mark.parametrize("persistent", [False, True])
def test_workers_share_the_examples_in_one_order(torch, persistent):
    options = {"num_workers": 2, "multiprocessing_context": "fork", "timeout": LIMIT, "batch_size": 2}
    pipe = numbers(torch).shuffle().sharding_filter()
    first, second = loaded(torch, pipe, persistent_workers=persistent, **options)
    assert first == [[9, 5], [0, 7], [4, 3], [1, 8], [6], [2]]
    assert second == [[0, 8], [3, 2], [9, 5], [6, 1], [7], [4]]
    assert sorted(sum(sum(loaded(torch, numbers(torch), 1, **options), []), [])) == sorted(2 * list(range(10)))


def test_pipes_are_pickled_with_their_counts(torch):
    pipe = numbers(torch).map(plus).shuffle().set_seed(1)
    begun = iter(pipe)
    taken = [next(begun) for _ in range(4)]
    again = pickle.loads(pickle.dumps(pipe))
    assert again._number_of_samples_yielded == 4
    snapshot = import_module(f"{torch.__name__}.utils.data.datapipes.utils.snapshot")
    rng = torch.Generator()
    fresh = copy.deepcopy(numbers(torch).map(plus))
    snapshot._simple_graph_snapshot_restoration(fresh, 4, rng)
    assert list(fresh) == list(range(4, 10)) and len(taken) == 4
    assert list(fresh) == list(range(10))
    with pytest.raises(RuntimeError, match="exceeds the number of samples available."):
        snapshot._simple_graph_snapshot_restoration(numbers(torch), 11, rng)


def test_items_are_copied_for_each_iteration(torch):
    rows = [[1], [2]]
    changing = pipes(torch).IterableWrapper(rows).map(lambda row: row.append(0) or row)
    assert list(changing) == list(changing) == [[1, 0], [2, 0]] and rows == [[1], [2]]
    with pytest.warns(UserWarning, match="The input iterable can not be deepcopied"):
        assert list(pipes(torch).IterableWrapper(iter(open(os.devnull)))) == []


def test_unpicklable_functions_are_named(torch):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        numbers(torch).map(plus)
        with pytest.raises(UserWarning, match="Lambda function is not supported by pickle"):
            numbers(torch).map(eval("lambda x: x"))
    with pytest.raises(TypeError, match="A callable function is expected, but <class 'int'> is provided."):
        numbers(torch).map(3)
