"""Indices out of range, and indices in memory that is written to: the class of the error, and its words."""

import pytest

INDEX_SELECT = [
    ((3, 4), 0, 9, IndexError, "index out of range in self"),
    ((3, 4), 1, -1, RuntimeError, "INDICES element is out of DATA bounds, id=-1 axis_dim=4"),
    ((2, 3, 4), 1, 9, RuntimeError, "INDICES element is out of DATA bounds, id=9 axis_dim=3"),
    ((2, 3, 4), 2, 9, IndexError, "index out of range in self"),
    ((5,), 0, 9, IndexError, "index out of range in self"),
    ((0, 3), 0, 0, RuntimeError, "self indexing axis dim should be positive"),
    ((0, 3), 1, 7, RuntimeError, "INDICES element is out of DATA bounds, id=7 axis_dim=3"),
    ((0,), 0, 0, IndexError, "index out of range in self"),
]


@pytest.mark.parametrize(("shape", "dim", "index", "error", "text"), INDEX_SELECT)
def test_index_select_refuses_an_index_by_its_dimension(torch, shape, dim, index, error, text):
    with pytest.raises(error, match=text):
        torch.index_select(torch.zeros(shape), dim, torch.tensor([index]))


OTHERS = {
    "x[torch.tensor([0]), torch.tensor([7])]": (IndexError, "index 7 is out of bounds for dimension 1 with size 4"),
    "x[torch.tensor([5])]": (IndexError, "index 5 is out of bounds for dimension 0 with size 3"),
    "torch.gather(x, 0, torch.tensor([[5]]))": (RuntimeError, "index 5 is out of bounds for dimension 0 with size 3"),
    "torch.index_add(x, 0, torch.tensor([5]), x[:1])": (RuntimeError, "index 5 is out of bounds"),
    "torch.index_copy(x, 0, torch.tensor([5]), x[:1])": (IndexError, "index 5 is out of bounds"),
    "torch.index_fill(x, 0, torch.tensor([5]), 1)": (IndexError, "index 5 is out of bounds"),
    "torch.scatter(x, 0, torch.tensor([[-1]]), 1.)": (RuntimeError, "index -1 is out of bounds"),
    "torch.take(x, torch.tensor([99]))": (IndexError, "tried to access index 99 on a tensor of 12 elements"),
    "F.embedding(torch.tensor([5]), x)": (IndexError, "index out of range in self"),
    "F.embedding_bag(torch.tensor([0]), x, torch.tensor([0]), padding_idx=9)": (
        RuntimeError,
        "padding_idx must be within the number of embeddings, -3 through 2, but got 9",
    ),
    "F.nll_loss(x, torch.tensor([9, 0, 0]))": (IndexError, "Target 9 is out of bounds"),
    "torch.linalg.lu_solve(q, torch.tensor([9, 9, 9], dtype=torch.int32), q)": (RuntimeError, "smaller or equal to LU"),
    "torch.repeat_interleave(torch.tensor([-1]))": (RuntimeError, "repeats can not be negative"),
    "torch.bincount(torch.tensor([-1]))": (RuntimeError, "1-d non-negative integral inputs"),
}


@pytest.mark.parametrize("expression", OTHERS)
def test_other_operators_refuse_an_index(torch, expression):
    names = {"torch": torch, "F": torch.nn.functional, "x": torch.zeros(3, 4), "q": torch.eye(3)}
    error, text = OTHERS[expression]
    with pytest.raises(error, match=text):
        eval(expression, names)


WRITES = {
    "scatter": lambda x, i, s: x.scatter_(0, i, s),
    "scatter a product": lambda x, i, s: x.scatter_(0, i, s, reduce="multiply"),
    "scatter_add": lambda x, i, s: x.scatter_add_(0, i, s),
    "scatter_reduce": lambda x, i, s: x.scatter_reduce_(0, i, s, "sum"),
    "scatter_reduce to means": lambda x, i, s: x.scatter_reduce_(0, i, s, "mean"),
    "scatter_reduce without self": lambda x, i, s: x.scatter_reduce_(0, i, s, "amax", include_self=False),
    "index_add": lambda x, i, s: x.index_add_(0, i, s),
    "index_copy": lambda x, i, s: x.index_copy_(0, i, s),
    "index_reduce": lambda x, i, s: x.index_reduce_(0, i, s, "amin"),
    "put": lambda x, i, s: x.put_(i, s),
    "accumulating put": lambda x, i, s: x.put_(i, s, accumulate=True),
}


@pytest.mark.filterwarnings("ignore:The reduce argument", "ignore:index_reduce")
@pytest.mark.parametrize("name", WRITES)
def test_indices_and_sources_must_not_share_the_memory_that_is_written_to(torch, name):
    numbers = [2, 0, 1, 3, 0, 1, 2]
    for index, source in (slice(0, 4), None), (slice(1, 5), None), (None, slice(0, 4)), (None, slice(2, 6)):
        memory, other = torch.tensor(numbers), torch.tensor(numbers)
        index, source = (other[:4] if part is None else memory[part] for part in (index, source))
        with pytest.raises(RuntimeError, match="refer to a single memory location"):
            WRITES[name](memory[:4], index, source)
        assert memory.tolist() == numbers
    x = torch.tensor([5, 6, 7, 8])
    assert torch.equal(WRITES[name](x.clone(), other[:4], other[:4]), WRITES[name](x, other[:4].clone(), other[:4]))


INTO_OUT = {
    "scatter": lambda torch, s, i, out: torch.scatter(s, 0, i, s, out=out),
    "scatter a number": lambda torch, s, i, out: torch.scatter(s, 0, i, 1, out=out),
    "scatter a sum": lambda torch, s, i, out: torch.scatter(s, 0, i, s, reduce="add", out=out),
    "scatter_add": lambda torch, s, i, out: torch.scatter_add(s, 0, i, s, out=out),
    "scatter_reduce": lambda torch, s, i, out: torch.scatter_reduce(s, 0, i, s, "amax", out=out),
    "index_add": lambda torch, s, i, out: torch.index_add(s, 0, i, s, out=out),
    "index_copy": lambda torch, s, i, out: torch.index_copy(s, 0, i, s, out=out),
    "index_reduce": lambda torch, s, i, out: torch.index_reduce(s, 0, i, s, "amax", out=out),
}


@pytest.mark.filterwarnings("ignore:The reduce argument", "ignore:index_reduce")
@pytest.mark.parametrize("name", INTO_OUT)
def test_an_output_may_be_the_first_input_but_not_the_index(torch, name):
    index, source = torch.tensor([2, 0, 1, 3]), torch.tensor([5, 6, 7, 8])
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        INTO_OUT[name](torch, source, index, index)
    assert index.tolist() == [2, 0, 1, 3]
    if name == "scatter a number":
        assert INTO_OUT[name](torch, source, index, source) is source and source.tolist() == [1, 1, 1, 1]
