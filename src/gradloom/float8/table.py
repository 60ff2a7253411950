"""What PyTorch does with float8 tensors, operator by operator.

Measured by `python -m tests.conformance.float8_table`; not edited. See Note [Float8 tensors].
"""

# ruff: noqa: E501

COMPUTING = """
_chunk_cat _neg_view _reshape_alias _scaled_mm _scaled_mm_v2 _to_copy _unsafe_index _unsafe_index_put _unsafe_view abs
addbmm addmm alias alias_copy all any as_strided as_strided_copy as_strided_scatter block_diag cat clone conj_physical
constant_pad_nd copy count_nonzero detach detach_copy diag_embed diagonal diagonal_backward diagonal_copy
diagonal_scatter embedding empty_like eq equal expand expand_copy fill flip full_like index index_put index_select
isinf isnan isreal masked_scatter_backward masked_select mm narrow_copy ne new_empty new_empty_strided new_full
new_ones new_zeros ones_like permute permute_copy repeat repeat_interleave resize resize_as roll rot90 select
select_backward select_copy select_scatter slice slice_backward slice_copy slice_scatter split split_copy
split_with_sizes split_with_sizes_copy squeeze squeeze_copy stack t t_copy transpose transpose_copy unbind unbind_copy
unfold unfold_copy unsafe_split unsafe_split_with_sizes unsqueeze unsqueeze_copy view view_copy where zero zeros_like
"""

REFUSING = """
_adaptive_avg_pool2d: [0] adaptive_avg_pool2d
_adaptive_avg_pool3d: adaptive_avg_pool3d_cpu
_batch_norm_with_update: batch_norm
_cdist_forward: cdist
_ctc_loss: ctc_loss_cpu
_embedding_bag_forward_only: Expected tensor for argument #1 'weight' to have one of the following scalar types: Half, BFloat16, Float, Double; but got {} instead (while checking arguments for embedding_bag)
_fft_r2c: Unknown Complex ScalarType for {}
_histogramdd_bin_edges: histogramdd
_histogramdd_from_bin_tensors: histogram_cpu
_linalg_det: lu_cpu
_linalg_eigh: [0] linalg_eigh_cpu
_linalg_slogdet: linalg.slogdet: Low precision dtypes not supported. Got {}
_linalg_solve_ex: [0] lu_cpu
_linalg_svd: [0] linalg_svd_cpu
_log_softmax: [0] log_softmax_lastdim_kernel_impl
_native_batch_norm_legit: batch_norm
_pdist_forward: pdist
_prelu_kernel: prelu_cpu
_safe_softmax: softmax_lastdim_kernel_impl
_softmax: [0] softmax_lastdim_kernel_impl
_softmax_backward_data: softmax_backward_lastdim_kernel_impl
_sparse_mm_reduce_impl: spmm_reduce_kernel
_to_sparse: nonzero_count_cpu
_trilinear: bmm
_unique2: unique
_unsafe_masked_index: masked_fill
_unsafe_masked_index_put_accumulate: masked_fill
_upsample_bilinear2d_aa: compute_index_ranges_weights
_upsample_nearest_exact1d: compute_indices_weights_nearest
_upsample_nearest_exact2d: upsample_nearest2d_channels_last
acos: acos_vml_cpu
acosh: acosh_cpu
adaptive_max_pool2d: adaptive_max_pool2d
adaptive_max_pool3d: adaptive_max_pool3d_cpu
add: add_stub
addcdiv: addcdiv_cpu_out
addcmul: addcmul_cpu_out
addmv: addmv_impl_cpu
addr: addr_cpu
allclose: mul_cpu_reduced_float
amax: max_values_cpu
amin: min_values_cpu
aminmax: aminmax_cpu
angle: angle_cpu
argmax: argmax_cpu
argmin: argmin_cpu
asin: asin_vml_cpu
asinh: asinh_cpu
atan: atan_vml_cpu
atan2: atan2_cpu
atanh: atanh_cpu
avg_pool2d: avg_pool2d
avg_pool3d: avg_pool3d_out_frame
baddbmm: baddbmm
bernoulli: [0] bernoulli_tensor_cpu_self_
bernoulli.float: bernoulli_scalar_cpu_
binary_cross_entropy: binary_cross_entropy
binary_cross_entropy_with_logits: log_sigmoid_cpu
bincount: bincount_cpu
bitwise_and: bitwise_and_cpu
bitwise_not: bitwise_not_cpu
bitwise_or: bitwise_or_cpu
bitwise_xor: bitwise_xor_cpu
bmm: [0] bmm
bucketize: searchsorted_out_cpu
cauchy: cauchy_cpu
ceil: ceil_vml_cpu
celu: elu_cpu
channel_shuffle: channel_shuffle
cholesky: [0] cholesky_cpu
cholesky_inverse: cholesky_inverse_out_cpu
cholesky_solve: cholesky_solve_cpu
clamp: maximum_cpu
clamp_max: minimum_cpu
clamp_min: clamp_min_scalar_cpu
clamp_min.Tensor: maximum_cpu
complex: Expected both inputs to be Half, Float or Double tensors but got {} and {}
convolution: slow_conv_transpose2d_out_cpu
copysign: copysign_cpu
cos: cos_vml_cpu
cosh: cosh_cpu
cummax: [1] cummax_cpu
cummin: [1] cummin_cpu
cumprod: [0] cumprod_out_cpu
cumsum: [01] cumsum_out_cpu
deg2rad: mul_cpu_reduced_float
digamma: digamma
dist: add_stub
div.Tensor: div_cpu | div_cpu_reduced_float
div.Tensor_mode: div_trunc_cpu | div_trunc_cpu_reduced_float
dot: dot
elu: elu_cpu
embedding_dense_backward: add_stub
embedding_renorm: norm_cpu
erf: erf_vml_cpu
erfc: erfc_vml_cpu
erfinv: erfinv_vml_cpu
exp: exp_vml_cpu
exp2: exp2
expm1: expm1_vml_cpu
exponential: exponential_cpu
floor: floor_vml_cpu
floor_divide: div_floor_cpu | div_floor_cpu_reduced_float
fmax: fmax_cpu
fmin: fmin_cpu
fmod: fmod_cpu
frac: frac_cpu
frexp: frexp_cpu
gather: scatter_gather_tensor_cpu
gcd: gcd_cpu
ge: ge_cpu
gelu: GeluKernelImpl
gelu_backward: GeluBackwardKernelImpl
geometric: geometric_cpu
geqrf: geqrf_cpu
glu: glu_cpu
grid_sampler_2d: grid_sampler_2d_cpu_kernel_impl
grid_sampler_3d: grid_sampler3d_cpu
gt: gt_cpu
hardshrink: hardshrink_cpu
hardsigmoid: hardsigmoid_cpu
hardswish: hardswish_cpu
hardtanh: clamp_scalar_cpu
hash_tensor: xor_sum_cpu
heaviside: heaviside_cpu
histc: linspace_cpu
histogram.bin_ct: histogramdd
histogram.bins_tensor: histogram_cpu
huber_loss: huber_cpu
hypot: hypot_cpu
i0: i0_vml_cpu
igamma: igamma_cpu
igammac: igammac_cpu
im2col: im2col_out_cpu
index_add: index_add_
index_copy: index_copy_cpu
index_fill: index_fill_cpu
index_reduce: index_reduce_func_exclude_input_init
isin: unique
isneginf: isneginf_cpu
isposinf: isposinf_cpu
kthvalue: [1] kthvalue_cpu
lcm: lcm_cpu
ldexp: pow
le: le_cpu
leaky_relu: leaky_relu_cpu
lerp.Scalar: lerp_kernel_scalar
lerp.Tensor: lerp_kernel_tensor
lgamma: lgamma_vml_cpu
linalg_cholesky_ex: [0] triu
linalg_cross: cross
linalg_eig: Unknown Complex ScalarType for {}
linalg_householder_product: orgqr_cpu
linalg_inv_ex: linalg.inv: Low precision dtypes not supported. Got {}
linalg_ldl_factor_ex: [0] tril
linalg_ldl_solve: [0] ldl_solve_kernel_cpu
linalg_lu: lu_cpu
linalg_lu_factor_ex: lu_cpu
linalg_lu_solve: [0] linalg.lu_solve_cpu
linalg_matrix_exp: sum_cpu
linalg_pinv: linalg.pinv({}): expected a tensor with 2 or more dimensions of float, double, cfloat or cdouble types
linalg_qr: geqrf_cpu
linalg_solve_triangular: triangular_solve_cpu
linalg_vector_norm: norm_cpu
linspace: linspace_cpu
log: log_vml_cpu
log10: log10_vml_cpu
log1p: log1p_vml_cpu
log2: log2_vml_cpu
log_normal: log_normal_cpu
log_sigmoid_forward: log_sigmoid_cpu
logaddexp: logaddexp_cpu
logaddexp2: logaddexp2_cpu
logcumsumexp: logcumsumexp_out_cpu
logical_and: logical_and_cpu
logical_not: logical_not_cpu
logical_or: logical_or_cpu
logical_xor: logical_xor_cpu
logit: logit_cpu
logsumexp: max_values_cpu
lt: lt_cpu
lu_unpack: tril
masked_fill: masked_fill
masked_scatter: masked_scatter
max: max_all
max.dim: [1] max_cpu
max_pool2d_with_indices: max_pool2d
max_pool3d_with_indices: max_pool3d
max_unpool2d: max_unpool2d
max_unpool3d: max_unpool3d
maximum: maximum_cpu
mean: sum_cpu
median: median_cpu
median.dim: median_out
min: min_all
min.dim: [1] min_cpu
minimum: minimum_cpu
mish: mish_cpu
mode: [1] mode_cpu
mse_loss: mse_cpu
mul.Scalar: mul_cpu_reduced_float
mul.Tensor: [2] mul_cpu_reduced_float
multi_margin_loss: multi_margin_loss_cpu_kernel
multilabel_margin_loss_forward: multilabel_margin_loss_forward_out_frame
multinomial: aminmax_cpu
mv: addmv_impl_cpu
mvlgamma: arange_cpu
nan_to_num: nan_to_num
nanmedian: median_cpu
nanmedian.dim: median_out
nansum: nansum_cpu
native_batch_norm: batch_norm
native_group_norm: GroupNormKernelImpl
native_layer_norm: LayerNormKernelImpl
neg: neg_cpu
nextafter: nextafter_cpu
nll_loss_forward: nll_loss_out_frame
nonzero: nonzero_count_cpu
nonzero_static: nonzero_count_cpu
normal: normal_kernel_cpu
normal.Tensor_Tensor: min_all
normal.Tensor_float: normal_kernel_cpu
ormqr: ormqr_cpu
pixel_shuffle: [0] pixel_shuffle
pixel_unshuffle: [0] pixel_unshuffle
poisson: poisson_cpu
polar: Expected both inputs to be Half, Float or Double tensors but got {} and {}
polygamma: polygamma
pow: pow
prod: [0] prod_out_cpu
put: take_put_cpu
rad2deg: mul_cpu_reduced_float
rand_like: check_uniform_bounds
randint_like: random_update_from_to
randn_like: [0] normal_kernel_cpu
random: random_kernel_cpu
reciprocal: reciprocal_cpu
reflection_pad1d: reflection_pad1d
reflection_pad2d: reflection_pad2d
reflection_pad3d: reflection_pad3d
relu: clamp_min_scalar_cpu
remainder: remainder_cpu
replication_pad1d: replication_pad1d
replication_pad2d: replication_pad2d
replication_pad3d: replication_pad3d
round: round_vml_cpu
round.decimals: round_cpu
rrelu_with_noise: rrelu_with_noise_out_cpu
rsqrt: rsqrt_cpu
rsub: add_stub
scatter: scatter_gather_tensor_cpu
scatter_add: scatter_gather_tensor_cpu
scatter_reduce: scatter_reduce_exclude_input_init
searchsorted: [0] searchsorted_out_cpu
segment_reduce: _segment_reduce_cpu
sgn: sign_cpu
sigmoid: sigmoid_cpu_reduced_float
sigmoid_backward: sigmoid_backward_cpu
sign: sign_cpu
signbit: signbit_cpu
silu: silu_cpu
sin: sin_vml_cpu
sinc: sinc_cpu
sinh: sinh_cpu
smooth_l1_loss: smooth_l1_cpu
soft_margin_loss: neg_cpu
softplus: softplus_cpu
softshrink: softshrink_check
sort: sorting_kernel_method_name
sparse_sampled_addmm: sparse_sampled_addmm: Expected self to be a floating-point or complex tensor, but got {}
special_airy_ai: airy_ai_cpu
special_bessel_j0: bessel_j0_cpu
special_bessel_j1: bessel_j1_cpu
special_bessel_y0: bessel_y0_cpu
special_bessel_y1: bessel_y1_cpu
special_chebyshev_polynomial_t: chebyshev_polynomial_t_cpu
special_chebyshev_polynomial_u: chebyshev_polynomial_u_cpu
special_chebyshev_polynomial_v: chebyshev_polynomial_v_cpu
special_chebyshev_polynomial_w: chebyshev_polynomial_w_cpu
special_entr: entr_cpu
special_erfcx: erfcx_cpu
special_hermite_polynomial_h: hermite_polynomial_h_cpu
special_hermite_polynomial_he: hermite_polynomial_he_cpu
special_i0e: i0e_cpu
special_i1: i1_cpu
special_i1e: i1e_cpu
special_laguerre_polynomial_l: laguerre_polynomial_l_cpu
special_legendre_polynomial_p: legendre_polynomial_p_cpu
special_log_ndtr: log_ndtr_cpu
special_modified_bessel_i0: modified_bessel_i0_cpu
special_modified_bessel_i1: modified_bessel_i1_cpu
special_modified_bessel_k0: modified_bessel_k0_cpu
special_modified_bessel_k1: modified_bessel_k1_cpu
special_ndtri: ndtri_cpu
special_scaled_modified_bessel_k0: scaled_modified_bessel_k0_cpu
special_scaled_modified_bessel_k1: scaled_modified_bessel_k1_cpu
special_shifted_chebyshev_polynomial_t: shifted_chebyshev_polynomial_t_cpu
special_shifted_chebyshev_polynomial_u: shifted_chebyshev_polynomial_u_cpu
special_shifted_chebyshev_polynomial_v: shifted_chebyshev_polynomial_v_cpu
special_shifted_chebyshev_polynomial_w: shifted_chebyshev_polynomial_w_cpu
special_spherical_bessel_j0: spherical_bessel_j0_cpu
special_xlog1py: xlog1py_cpu
special_zeta: zeta_cpu
sqrt: sqrt_vml_cpu
std: [0] std_var_all: Unsupported dtype {}
std_mean: [0] std_cpu
sub: add_stub
sum: sum_cpu
sum.dim_IntList: [0] sum_cpu
take: [0] take_cpu
tan: tan_vml_cpu
tanh: tanh_vml_cpu
tanh_backward: tanh_backward_cpu
threshold: threshold_cpu
threshold_backward: threshold_cpu
topk: [1] topk_cpu
trace: trace
triangular_solve: triangular_solve_cpu
tril: tril
triu: triu
trunc: trunc_vml_cpu
unfold_backward: unfold_backward_cpu
uniform: check_uniform_bounds
unique_consecutive: unique
unique_dim: unique_dim
upsample_bicubic2d: compute_indices_weights_cubic
upsample_bilinear2d: upsample_bilinear2d_channels_last
upsample_linear1d: compute_indices_weights_linear
upsample_nearest1d: compute_indices_weights_nearest
upsample_nearest2d: upsample_nearest2d_channels_last
upsample_nearest3d: compute_indices_weights_nearest
upsample_trilinear3d: compute_indices_weights_linear
var: [0] std_var_all: Unsupported dtype {}
var_mean: [0] std_cpu
vdot: dot
view_as_complex: view_as_complex is only supported for half, float and double tensors, but got a tensor of scalar type: {}
xlogy: xlogy_cpu
_unsafe_index_put@e8m0: index_put
abs@e8m0: abs_cpu
addbmm@e8m0: addmm_impl_cpu_
addmm@e8m0: addmm_impl_cpu_
index_put@e8m0: index_put
isinf@e8m0: isinf
mm@e8m0: [0] addmm_impl_cpu_
"""
