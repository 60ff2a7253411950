"""x-transformers, rotary embeddings, vector quantization, averaged models and Lion: parts of language models."""

import torch
from ema_pytorch import EMA
from lion_pytorch import Lion
from vector_quantize_pytorch import FSQ, VectorQuantize
from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

for options in (
    {"rotary_pos_emb": True, "ff_glu": True, "attn_flash": True},
    {"alibi_pos_bias": True, "use_rmsnorm": True, "attn_one_kv_head": True},
    {"rel_pos_bias": True, "ff_swish": True, "attn_qk_norm": True, "sandwich_norm": True},
):
    torch.manual_seed(0)
    layers = Decoder(dim=16, depth=2, heads=2, attn_dim_head=8, **options)
    model = AutoregressiveWrapper(TransformerWrapper(num_tokens=20, max_seq_len=16, attn_layers=layers))
    optimizer, average = Lion(model.parameters(), lr=1e-3, weight_decay=0.1), EMA(model, beta=0.9, update_every=1)
    tokens = torch.randint(0, 20, (4, 13))
    for _ in range(3):
        optimizer.zero_grad()
        loss = model(tokens)
        loss.backward()
        optimizer.step()
        average.update()
        print(*options, loss.item())
    print("generated", model.generate(tokens[:1, :4], 6, temperature=0.0)[0].tolist())
torch.manual_seed(1)
quantize = VectorQuantize(dim=8, codebook_size=16, decay=0.8, commitment_weight=1.0)
values = torch.randn(2, 10, 8, requires_grad=True)
quantized, indices, loss = quantize(values)
(quantized.pow(2).mean() + loss.sum()).backward()
print("quantized", indices.sum().item(), loss.sum().item(), values.grad.norm().item())
print("finite", FSQ(levels=[4, 3, 3])(torch.randn(1, 5, 3))[1].tolist())
