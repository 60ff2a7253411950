"""The family of an operator of PyTorch's database: the name of one of gradloom's rooms, or `other`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

#: Names without their variant. What is not named here goes by prefix, then by the class of its OpInfo.
_MEMBERS = {
    "elementwise": """
        add sub rsub mul div true_divide floor_divide fmod remainder pow float_power square addcmul addcdiv
        lerp where clamp clamp_min clamp_max maximum minimum fmax fmin max.binary min.binary heaviside
        copysign nextafter ldexp logaddexp logaddexp2 xlogy hypot atan2 allclose isclose equal isin gcd lcm
        fill masked_fill zero_ nn.functional.threshold frexp nan_to_num clone sigmoid logit""",
    "reduction": """
        max.reduction_with_dim max.reduction_no_dim min.reduction_with_dim min.reduction_no_dim aminmax
        var_mean std_mean cumsum cumprod cummax cummin logcumsumexp logsumexp norm dist trace quantile
        nanquantile median nanmedian mode kthvalue histc histogram histogramdd bincount diff trapz
        trapezoid cumulative_trapezoid gradient cov corrcoef renorm sum_to_size""",
    "shape": """
        cat stack hstack vstack dstack column_stack split split_with_sizes chunk unsafe_chunk unsafe_split
        tensor_split hsplit vsplit dsplit unbind view view_as reshape reshape_as flatten unflatten ravel
        squeeze unsqueeze transpose t T H mT mH permute movedim expand expand_as broadcast_to
        broadcast_tensors broadcast_shapes repeat repeat_interleave tile flip fliplr flipud roll rot90
        narrow select slice diagonal diag diag_embed diagflat as_strided unfold atleast_1d atleast_2d
        atleast_3d block_diag meshgrid contiguous resize_ resize_as_ tril triu cartesian_prod combinations
        constant_pad_nd nn.functional.pad nn.functional.pixel_shuffle nn.functional.pixel_unshuffle
        nn.functional.channel_shuffle nn.functional.unfold _chunk_cat alias_copy split_with_sizes_copy""",
    "indexing": """
        __getitem__ index_put index_select index_add index_copy index_fill index_reduce gather scatter
        scatter_add scatter_reduce take take_along_dim put masked_select masked_scatter nonzero
        nonzero_static argwhere select_scatter slice_scatter diagonal_scatter as_strided_scatter
        tril_indices triu_indices unravel_index nn.functional.one_hot nn.functional.embedding
        nn.functional.embedding_bag bucketize searchsorted _unsafe_masked_index
        _unsafe_masked_index_put_accumulate _segment_reduce""",
    "matmul": """
        matmul __rmatmul__ mm bmm mv dot vdot inner outer addmm addmv addr addbmm baddbmm einsum tensordot
        kron nn.functional.linear nn.functional.bilinear cross linalg.vecdot linalg.multi_dot cdist""",
    "activation": """
        softmax log_softmax _softmax_backward_data nn.functional.softmin nn.functional.gelu
        nn.functional.glu nn.functional.leaky_relu nn.functional.hardswish nn.functional.softplus
        torch.ops.aten._safe_softmax.default""",
    "loss": """
        nn.functional.cross_entropy nn.functional.linear_cross_entropy nn.functional.kl_div
        nn.functional.cosine_similarity nn.functional.pairwise_distance nn.functional.pdist
        nn.functional.binary_cross_entropy nn.functional.binary_cross_entropy_with_logits""",
    "creation": """
        arange linspace logspace eye zeros ones full empty zeros_like ones_like full_like empty_like
        empty_strided empty_permuted new_zeros new_ones new_full new_empty new_empty_strided scalar_tensor
        to item bool byte char short int long half bfloat16 float double chalf cfloat cdouble""",
    "random": """
        randn randn_like rand_like randint randint_like normal uniform exponential geometric cauchy
        log_normal bernoulli multinomial nn.functional.dropout nn.functional.dropout2d
        nn.functional.dropout3d nn.functional.alpha_dropout nn.functional.feature_alpha_dropout
        native_dropout_backward""",
    "conv": """
        nn.functional.conv1d nn.functional.conv2d nn.functional.conv3d""",
    "resampling": """
        nn.functional.interpolate nn.functional.upsample_bilinear nn.functional.upsample_nearest
        nn.functional.grid_sample""",
    "pool": "max_pool2d_with_indices_backward",
    "norm": """
        native_batch_norm native_layer_norm native_group_norm _native_batch_norm_legit
        _batch_norm_with_update nn.functional.normalize nn.functional.batch_norm nn.functional.layer_norm
        nn.functional.group_norm nn.functional.instance_norm nn.functional.rms_norm
        nn.functional.local_response_norm""",
    "sorting": "sort argsort msort topk unique unique_consecutive",
    "complex": """
        real imag conj conj_physical angle complex polar view_as_real view_as_complex resolve_conj
        resolve_neg""",
    "linalg": """
        cholesky cholesky_inverse cholesky_solve geqrf ormqr qr lu lu_solve lu_unpack logdet matrix_exp
        pinverse svd svd_lowrank pca_lowrank triangular_solve""",
    "fft": "stft istft",
    "special": """
        digamma lgamma polygamma mvlgamma erf erfc erfinv i0 igamma igammac sinc""",
    "attention": """
        nn.functional.scaled_dot_product_attention nn.functional.multi_head_attention_forward
        torch.ops.aten._flash_attention_forward torch.ops.aten._efficient_attention_forward""",
}
_FAMILY = {name: family for family, names in _MEMBERS.items() for name in names.split()}
_PREFIXES = (
    ("linalg.", "linalg"),
    ("fft.", "fft"),
    ("special.", "special"),
    ("signal.", "creation"),
    ("nn.functional.conv", "conv"),
    ("jiterator", "other"),
    ("masked.", "other"),
    ("sparse.", "other"),
)
_WORDS = (("_pool", "pool"), ("_unpool", "pool"), ("_loss", "loss"))
_CLASSES = {"BinaryUfuncInfo": "elementwise", "UnaryUfuncInfo": "elementwise", "ReductionOpInfo": "reduction"}

_YAML = Path(__file__).parents[2] / "native_functions.yaml"
_BANNER = re.compile(r"# == (\w+) ==\s*$")
_ENTRY = re.compile(r"- func: (\w+)")


def banners(path: Path = _YAML) -> dict[str, str]:
    """Operator name -> family, as the banners in native_functions.yaml have it; empty without the file."""
    found, family = {}, ""
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        banner, entry = _BANNER.match(line), _ENTRY.match(line)
        if banner:
            family = banner[1]
        elif entry and family:
            found.setdefault(entry[1], family)
    return found


_IN_YAML = banners()
FAMILIES = tuple(dict.fromkeys((*_MEMBERS, *_IN_YAML.values(), "other")))


def in_database() -> tuple[str, ...]:
    """The families of which PyTorch's database of operators has entries."""
    from torch.testing._internal.common_methods_invocations import op_db

    present = {family_of(op) for op in op_db}
    return tuple(family for family in FAMILIES if family in present)


def family_of(op: Any) -> str:
    """The family of an OpInfo: under whose banner gradloom has the operator, or else by PyTorch's name."""
    plain = op.name.removeprefix("nn.functional.").removeprefix("torch.ops.aten.")
    in_yaml = _IN_YAML.get(plain.replace(".", "_")) or _IN_YAML.get(plain)
    return in_yaml or by_name(op)


def by_name(op: Any) -> str:
    """The family of an OpInfo by its name alone. `view_copy` is where `view` is."""
    for name in (op.full_name, op.name, op.name.removesuffix("_copy")):
        if name in _FAMILY:
            return _FAMILY[name]
    for prefix, family in _PREFIXES:
        if op.name.startswith(prefix):
            return family
    for word, family in _WORDS:
        if word in op.name:
            return family
    kind = type(op).__name__
    if kind == "UnaryUfuncInfo" and op.name.startswith("nn.functional."):
        return "activation"
    return _CLASSES.get(kind, "other")
