"""Data sets, samplers and loaders. Tests that take `torch` run with PyTorch, too: the random orders are the same."""

import collections
from importlib import import_module
from importlib.util import find_spec

import numpy as np
import pytest


@pytest.fixture(params=[name for name in ("gradloom", "torch") if find_spec(name)])
def torch(request):
    return import_module(request.param)


class Numbers:
    """Examples that are their own index."""

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if index >= self.count:
            raise IndexError
        return index


def batches(torch, *arguments, **options):
    return [batch.tolist() for batch in torch.utils.data.DataLoader(*arguments, **options)]


def test_batches_come_in_order(torch):
    assert batches(torch, Numbers(5), batch_size=2) == [[0, 1], [2, 3], [4]]
    assert batches(torch, Numbers(5), batch_size=2, drop_last=True) == [[0, 1], [2, 3]]
    assert batches(torch, Numbers(3), sampler=[2, 0]) == [[2], [0]]
    assert batches(torch, Numbers(3), batch_sampler=[[2, 0], [1]]) == [[2, 0], [1]]
    assert list(torch.utils.data.DataLoader(Numbers(3), batch_size=None)) == [0, 1, 2]


def test_the_random_order_is_that_of_the_seed(torch):
    torch.manual_seed(0)
    first = batches(torch, Numbers(10), batch_size=4, shuffle=True)
    assert first[0] == [6, 7, 1, 4] and sorted(sum(first, [])) == list(range(10))
    generator = torch.Generator().manual_seed(3)
    assert batches(torch, Numbers(7), batch_size=3, shuffle=True, generator=generator) == [[3, 4, 2], [0, 1, 6], [5]]
    assert batches(torch, Numbers(7), batch_size=3, shuffle=True, generator=generator) == [[6, 1, 2], [3, 4, 0], [5]]


def test_a_loader_draws_one_number_each_time_it_is_gone_through(torch):
    torch.manual_seed(0)
    torch.empty((), dtype=torch.int64).random_()
    expected = torch.rand(1)
    torch.manual_seed(0)
    batches(torch, Numbers(3))
    assert torch.equal(torch.rand(1), expected)


def test_samplers_draw_what_pytorch_draws(torch):
    data = torch.utils.data
    torch.manual_seed(1)
    assert list(data.RandomSampler(Numbers(5))) == [1, 3, 4, 0, 2]
    assert list(data.RandomSampler(Numbers(5), replacement=True)) == [4, 0, 3, 0, 4]
    assert list(data.RandomSampler(Numbers(5), num_samples=12)) == [4, 0, 2, 1, 3, 2, 1, 0, 4, 3, 3, 4]
    assert len(list(data.RandomSampler(Numbers(5), replacement=True, num_samples=70))) == 70
    assert sorted(data.SubsetRandomSampler([3, 4, 5])) == [3, 4, 5]
    assert set(data.WeightedRandomSampler([0.0, 1.0, 0.0], 6)) == {1}


def test_processes_share_a_data_set(torch):
    def parts(**options):
        return [list(torch.utils.data.DistributedSampler(Numbers(10), 3, rank, **options)) for rank in range(3)]

    assert parts(shuffle=False) == [[0, 3, 6, 9], [1, 4, 7, 0], [2, 5, 8, 1]]
    assert {i for part in parts(seed=4) for i in part} == set(range(10))
    assert sorted(i for part in parts(drop_last=True) for i in part)[0] >= 0 and len(parts(drop_last=True)[0]) == 3
    sampler = torch.utils.data.DistributedSampler(Numbers(10), 3, 0)
    first = list(sampler)
    sampler.set_epoch(1)
    assert list(sampler) != first


def test_examples_of_every_kind_become_batches(torch):
    collate = torch.utils.data.default_collate
    assert collate([1.5, 2.5]).dtype is torch.float64 and collate([True, False]).dtype is torch.bool
    assert collate(["a", "b"]) == ["a", "b"]
    assert collate([np.float32(1), np.float32(2)]).dtype is torch.float32
    found = collate([{"a": (1, [2.0]), "b": "x"}, {"a": (3, [4.0]), "b": "y"}])
    assert found["a"][0].tolist() == [1, 3] and found["a"][1][0].tolist() == [2.0, 4.0] and found["b"] == ["x", "y"]
    Pair = collections.namedtuple("Pair", "x y")
    pair = collate([Pair(1, 2), Pair(3, 4)])
    assert type(pair) is Pair and pair.y.tolist() == [2, 4]
    assert type(collate([collections.OrderedDict(a=1)])) is collections.OrderedDict
    assert collate([np.arange(2), np.arange(2)]).shape == (2, 2)


@pytest.mark.parametrize(
    ("batch", "error", "words"),
    [
        ([None], TypeError, "must contain tensors, numpy arrays, numbers, dicts or lists; found <class 'NoneType'>"),
        ([[1], [1, 2]], RuntimeError, "each element in list of batch should be of equal size"),
        ([np.array(["a"])], TypeError, "found <U1"),
    ],
)
def test_what_cannot_be_put_together(torch, batch, error, words):
    with pytest.raises(error, match=words):
        torch.utils.data.default_collate(batch)


def test_arrays_are_converted_where_there_are_no_batches(torch):
    found = torch.utils.data.default_convert([np.arange(2), "a", {"b": np.float32(1)}])
    assert isinstance(found[0], torch.Tensor) and found[1] == "a" and found[2]["b"].dtype is torch.float32


def test_data_sets_are_made_of_others(torch):
    data = torch.utils.data
    rows = data.TensorDataset(torch.arange(3), torch.arange(3.0))
    assert rows[1][1].item() == 1.0 and len(rows) == 3 and rows[1:][0].tolist() == [1, 2]
    both = data.ConcatDataset([Numbers(3), Numbers(4)])
    assert [both[i] for i in range(7)] == [0, 1, 2, 0, 1, 2, 3] and both[-1] == 3 and both.cumulative_sizes == [3, 7]
    assert list(data.Subset(Numbers(9), [4, 2])) == [4, 2]
    assert data.StackDataset(a=Numbers(3), b=Numbers(3))[1] == {"a": 1, "b": 1}
    with pytest.raises(AssertionError, match="Size mismatch between tensors"):
        data.TensorDataset(torch.ones(2), torch.ones(3))
    with pytest.raises(ValueError, match="absolute value of index"):
        both[-8]


def test_a_data_set_is_dealt_out_at_random(torch):
    split = torch.utils.data.random_split
    parts = split(Numbers(10), [0.5, 0.3, 0.2], generator=torch.Generator().manual_seed(0))
    assert [len(part) for part in parts] == [5, 3, 2] and sorted(i for part in parts for i in part) == list(range(10))
    order = torch.randperm(10, generator=torch.Generator().manual_seed(0)).tolist()
    assert [i for part in parts for i in part] == order
    assert [len(part) for part in split(Numbers(11), [0.5, 0.5])] == [6, 5]
    for wrong, words in (([7, 4], "Sum of input lengths"), ([1.5, -0.5], "Fraction at index 0")):
        with pytest.raises(ValueError, match=words):
            split(Numbers(10), wrong)


def test_iterable_data_sets_have_their_own_order(torch):
    class Counting(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter(range(5))

    assert batches(torch, Counting(), batch_size=2) == [[0, 1], [2, 3], [4]]
    assert batches(torch, Counting(), batch_size=2, drop_last=True) == [[0, 1], [2, 3]]
    assert list(Counting() + Counting()) == [*range(5), *range(5)]
    with pytest.raises(ValueError, match="expected unspecified shuffle option"):
        torch.utils.data.DataLoader(Counting(), shuffle=True)
    with pytest.raises(TypeError):
        len(torch.utils.data.DataLoader(Counting()))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"shuffle": True, "sampler": [1]}, "sampler option is mutually exclusive with shuffle"),
        ({"batch_size": 2, "batch_sampler": [[1]]}, "batch_sampler option is mutually exclusive with batch_size"),
        ({"batch_size": None, "drop_last": True}, "batch_size=None option disables auto-batching"),
        ({"batch_size": 0}, "batch_size should be a positive integer value"),
        ({"num_workers": -1}, "num_workers option should be non-negative"),
        ({"prefetch_factor": 2}, "prefetch_factor option could only be specified in multiprocessing"),
        ({"persistent_workers": True}, "persistent_workers option needs num_workers > 0"),
        ({"timeout": -1}, "timeout option should be non-negative"),
    ],
)
def test_what_a_loader_refuses(torch, options, words):
    with pytest.raises(ValueError, match=words):
        torch.utils.data.DataLoader(Numbers(3), **options)


def test_what_a_loader_is_made_of_stays(torch):
    loader = torch.utils.data.DataLoader(Numbers(5), batch_size=2)
    assert len(loader) == 3 and len(torch.utils.data.DataLoader(Numbers(5), 2, drop_last=True)) == 2
    with pytest.raises(ValueError, match="batch_size attribute should not be set after DataLoader is initialized"):
        loader.batch_size = 3


def test_whole_batches_are_asked_for_where_a_data_set_knows_how(torch):
    class Tens(Numbers):
        def __getitems__(self, indices):
            return [10 * i for i in indices]

    assert batches(torch, Tens(3), batch_size=2) == [[0, 10], [20]]
    assert batches(torch, torch.utils.data.Subset(Tens(4), [3, 1]), batch_size=2) == [[30, 10]]


def test_an_error_of_a_data_set_arrives(torch):
    class Broken(Numbers):
        def __getitem__(self, index):
            raise KeyError("no such file")

    with pytest.raises(KeyError, match="no such file"):
        batches(torch, Broken(3))


def test_nothing_can_be_drawn_from_an_empty_data_set(torch):
    sampler = torch.utils.data.RandomSampler(Numbers(0), num_samples=2)
    assert len(sampler) == 2
    with pytest.raises(ZeroDivisionError):
        list(sampler)
