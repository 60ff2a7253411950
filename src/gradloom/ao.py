"""Quantization, which gradloom does not have: libraries import its names for models that few programs use."""

from __future__ import annotations

from .utils._refused import declare

_MODULES = """
    nn nn.intrinsic nn.intrinsic.modules nn.intrinsic.modules.fused nn.intrinsic.qat nn.intrinsic.quantized nn.qat
    nn.qat.modules nn.quantizable nn.quantizable.modules nn.quantized nn.quantized.dynamic nn.quantized.modules
    nn.quantized.modules.utils nn.quantized.reference ns pruning quantization quantization.backend_config
    quantization.fake_quantize quantization.fuse_modules quantization.fx quantization.observer quantization.qconfig
    quantization.qconfig_mapping quantization.quantize quantization.quantize_fx quantization.quantizer
    quantization.stubs quantization.utils
""".split()

__getattr__ = declare(
    __name__,
    {"": "", **dict.fromkeys(_MODULES, "*")},
    "gradloom has no quantized tensors; use the floating-point model, or bfloat16 by torch.autocast",
)
