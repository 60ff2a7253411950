"""Public names that only PyTorch has, written by `python -m tests.conformance.absent`."""

NAMES = {
    "torch": """
        QInt32Storage QInt8Storage QUInt2x4Storage QUInt4x2Storage QUInt8Storage bit choose_qparams_optimized
        classes contrib cudnn_affine_grid_generator cudnn_batch_norm cudnn_convolution
        cudnn_convolution_add_relu cudnn_convolution_relu cudnn_convolution_transpose cudnn_grid_sampler
        cudnn_is_acceptable empty_quantized fbgemm_linear_fp16_weight
        fbgemm_linear_fp16_weight_fp32_activation fbgemm_linear_int8_weight
        fbgemm_linear_int8_weight_fp32_activation fbgemm_linear_quantize_weight fbgemm_pack_gemm_matrix_fp16
        fbgemm_pack_quantized_matrix import_ir_module import_ir_module_from_buffer int_repr jagged
        merge_type_from_type_comment miopen_batch_norm miopen_convolution miopen_convolution_add_relu
        miopen_convolution_relu miopen_convolution_transpose miopen_ctc_loss miopen_depthwise_convolution
        miopen_rnn mkldnn_adaptive_avg_pool2d mkldnn_convolution mkldnn_linear_backward_weights
        mkldnn_max_pool2d mkldnn_max_pool3d monitor nativert nested numa parse_ir parse_type_comment
        q_per_channel_axis q_per_channel_scales q_per_channel_zero_points q_scale q_zero_point quantization
        quantize_per_channel quantize_per_tensor quantize_per_tensor_dynamic quantized_batch_norm
        quantized_gru quantized_gru_cell quantized_lstm quantized_lstm_cell quantized_max_pool1d
        quantized_max_pool2d quantized_max_pool3d quantized_rnn_relu_cell quantized_rnn_tanh_cell
        sparse_bsc_tensor sparse_bsr_tensor sparse_compressed_tensor sparse_csc_tensor sparse_csr_tensor
        unify_type_list
    """,
    "torch.nn": """
        backends cpp intrinsic qat quantizable quantized
    """,
    "torch.utils": """
        backend_registration bundled_inputs cpp_backtrace cpp_extension
        generate_methods_for_privateuse1_backend get_cpp_backtrace hipify jit mkldnn mobile_optimizer
        model_dump rename_privateuse1_backend serialization show_pickle
    """,
    "torch.distributed": """
        ProcessGroupNCCL2 ProcessGroupNCCLLazy c10d_logger config debug flight_recorder logging_handlers
        remote_device
    """,
    "torch.Tensor": """
        chalf index int_repr q_per_channel_axis q_per_channel_scales q_per_channel_zero_points q_scale
        q_zero_point qscheme record_stream to_mkldnn to_padded_tensor to_sparse_bsc to_sparse_bsr
        to_sparse_csc to_sparse_csr
    """,
}
