"""What nodes show of what they keep: `_saved_<field>`."""


def test_integers_are_shown_without_a_sign(torch):
    x = torch.ones(2, 3, requires_grad=True)
    assert x.sum(-1).grad_fn._saved_dim == (2**64 - 1,)
    assert x.unsqueeze(-1).grad_fn._saved_dim == 2**64 - 1
    assert x.softmax(1).grad_fn._saved_dim == 1
    assert x.sum(1).grad_fn._saved_self_sym_sizes == (2, 3)


def test_numbers_keep_their_sign_and_type(torch):
    x = torch.ones(2, 3, requires_grad=True)
    assert (x**-2).grad_fn._saved_exponent == -2
    assert torch.add(x, x, alpha=-3).grad_fn._saved_alpha == -3
    assert torch.threshold(x, -1, -2.5).grad_fn._saved_threshold == -1
    for value, kind in ((1 + 0j, complex), (1.0, float), (1, int), (False, bool)):
        assert type(torch.threshold(x, threshold=value, value=value).grad_fn._saved_threshold) is kind


def test_optional_and_textual_fields(torch):
    x = torch.ones(2, 2, requires_grad=True)
    assert torch.logit(x, 0.25).grad_fn._saved_eps == 0.25 and torch.logit(x).grad_fn._saved_eps is None
    assert torch.div(x, 2.0, rounding_mode="trunc").grad_fn._saved_rounding_mode == "trunc"
    assert x[:, torch.tensor([0, 1])].grad_fn._saved_indices[0] is None
    found = x.as_strided((3,), (1,), 1).grad_fn
    assert found._saved_size == (3,) and found._saved_stride == (1,) and found._saved_storage_offset == 1
