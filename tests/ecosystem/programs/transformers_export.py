"""transformers: small random models as exported programs, with a mask and for other sizes of the batch."""

import torch
from torch.export import Dim, export
from transformers import (
    BertConfig,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    ViTConfig,
    ViTModel,
)

SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
TEXT = {"vocab_size": 50, **SIZES}


def agree(name, program, model, **inputs):
    with torch.no_grad():
        expected, found = model(**inputs)[0], program.module()(**inputs)[0]
    print(name, tuple(found.shape), torch.allclose(expected, found, atol=1e-6), f"{found.double().norm().item():.7e}")


torch.manual_seed(0)
words = torch.randint(0, 50, (3, 7))
mask = torch.ones_like(words)
mask[1, 5:] = 0
for attention in ("eager", "sdpa"):
    for model in (
        BertModel(BertConfig(**TEXT, attn_implementation=attention)),
        LlamaForCausalLM(LlamaConfig(**TEXT, num_key_value_heads=1, attn_implementation=attention, use_cache=False)),
        GPT2LMHeadModel(
            GPT2Config(
                vocab_size=50, n_embd=16, n_layer=2, n_head=2, bos_token_id=1, eos_token_id=2,
                attn_implementation=attention, use_cache=False,
            )
        ),
    ):  # fmt: skip
        name = type(model).__name__
        batch = {0: Dim("batch", min=2, max=10)}
        sizes = {"input_ids": batch, "attention_mask": batch}
        program = export(model.eval(), (), {"input_ids": words[:2], "attention_mask": mask[:2]}, dynamic_shapes=sizes)
        agree(name, program, model, input_ids=words[:2], attention_mask=mask[:2])
        agree(name, program, model, input_ids=words, attention_mask=mask)
    model = ViTModel(ViTConfig(**SIZES, image_size=16, patch_size=4, attn_implementation=attention)).eval()
    images = torch.randn(2, 3, 16, 16)
    agree("ViT", export(model, (), {"pixel_values": images}), model, pixel_values=images)
