"""Public names that only PyTorch has, written by `python -m tests.conformance.absent`."""

NAMES = {
    "torch": """
        QInt32Storage QInt8Storage QUInt2x4Storage QUInt4x2Storage QUInt8Storage SymBool SymFloat SymInt ao
        batch_norm_backward_elemt batch_norm_backward_reduce batch_norm_elemt batch_norm_gather_stats
        batch_norm_gather_stats_with_counts batch_norm_stats batch_norm_update_stats bit ccol_indices_copy
        choose_qparams_optimized classes classproperty col_indices_copy cond contrib crow_indices_copy
        cudnn_affine_grid_generator cudnn_batch_norm cudnn_convolution cudnn_convolution_add_relu
        cudnn_convolution_relu cudnn_convolution_transpose cudnn_grid_sampler cudnn_is_acceptable dequantize
        dsmm empty_quantized fake_quantize_per_channel_affine fake_quantize_per_tensor_affine
        fbgemm_linear_fp16_weight fbgemm_linear_fp16_weight_fp32_activation fbgemm_linear_int8_weight
        fbgemm_linear_int8_weight_fp32_activation fbgemm_linear_quantize_weight fbgemm_pack_gemm_matrix_fp16
        fbgemm_pack_quantized_matrix fused_moving_avg_obs_fake_quant get_autocast_ipu_dtype
        get_autocast_xla_dtype get_device get_device_module get_file_path hsmm hspmm import_ir_module
        import_ir_module_from_buffer indices_copy init_num_threads int_repr is_autocast_ipu_enabled
        is_autocast_xla_enabled is_distributed is_vulkan_available jagged merge_type_from_type_comment
        miopen_batch_norm miopen_convolution miopen_convolution_add_relu miopen_convolution_relu
        miopen_convolution_transpose miopen_ctc_loss miopen_depthwise_convolution miopen_rnn
        mkldnn_adaptive_avg_pool2d mkldnn_convolution mkldnn_linear_backward_weights mkldnn_max_pool2d
        mkldnn_max_pool3d monitor native_norm nativert nested numa package parse_ir parse_schema
        parse_type_comment prepare_multiprocessing_environment
        profiler_allow_cudagraph_cupti_lazy_reinit_cuda12 q_per_channel_axis q_per_channel_scales
        q_per_channel_zero_points q_scale q_zero_point quantization quantize_per_channel quantize_per_tensor
        quantize_per_tensor_dynamic quantized_batch_norm quantized_gru quantized_gru_cell quantized_lstm
        quantized_lstm_cell quantized_max_pool1d quantized_max_pool2d quantized_max_pool3d
        quantized_rnn_relu_cell quantized_rnn_tanh_cell resize_as_sparse_ row_indices_copy saddmm
        set_autocast_ipu_dtype set_autocast_ipu_enabled set_autocast_xla_dtype set_autocast_xla_enabled
        slice_inverse smm sparse_bsc_tensor sparse_bsr_tensor sparse_compressed_tensor sparse_csc_tensor
        sparse_csr_tensor sspaddmm sym_constrain_range sym_constrain_range_for_size sym_float sym_fresh_size
        sym_int sym_ite sym_max sym_min sym_not sym_sqrt sym_sum thread_safe_generator torch_version
        unify_type_list values_copy while_loop
    """,
    "torch.nn": """
        backends cpp intrinsic qat quantizable quantized
    """,
    "torch.nn.functional": """
        ScalingType SwizzleType assert_int_or_pair grouped_mm scaled_grouped_mm scaled_mm
    """,
    "torch.optim": """
        swap_in_optimizer_params_and_state
    """,
    "torch.func": """
        functionalize
    """,
    "torch.utils": """
        backend_registration bundled_inputs cpp_backtrace cpp_extension
        generate_methods_for_privateuse1_backend get_cpp_backtrace hipify jit mkldnn mobile_optimizer
        model_dump model_zoo rename_privateuse1_backend serialization show_pickle tensorboard
    """,
    "torch.utils.data": """
        DFIterDataPipe DataChunk IterDataPipe MapDataPipe argument_validation functional_datapipe
        guaranteed_datapipes_determinism non_deterministic runtime_validation runtime_validation_disabled
    """,
    "torch.Tensor": """
        ccol_indices chalf col_indices crow_indices dequantize index int_repr ipu module_load mtia
        q_per_channel_axis q_per_channel_scales q_per_channel_zero_points q_scale q_zero_point qscheme
        record_stream reinforce resize_as_sparse_ row_indices slice_inverse smm sparse_resize_
        sparse_resize_and_clear_ sspaddmm to_mkldnn to_padded_tensor to_sparse_bsc to_sparse_bsr to_sparse_csc
        to_sparse_csr xpu
    """,
}
