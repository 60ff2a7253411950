"""transformers: a small Llama with grouped queries is trained with recomputation, and generates with a cache."""

import torch
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
ids = torch.randint(3, 64, (3, 20))
config = LlamaConfig(
    vocab_size=64,
    hidden_size=32,
    intermediate_size=56,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=64,
    bos_token_id=1,
    eos_token_id=2,
    pad_token_id=0,
)
for attention in ("eager", "sdpa"):
    torch.manual_seed(1)
    config._attn_implementation = attention
    model = LlamaForCausalLM(config)
    if attention == "sdpa":
        model.gradient_checkpointing_enable()
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1)
    for step in range(8):
        loss = model(ids, labels=ids).loss
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print(attention, step, loss.item(), norm.item())

model.gradient_checkpointing_disable()
model.eval()
mask = torch.tensor([[0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1], [0, 1, 1, 1, 1, 1]])
print("greedy", model.generate(ids[:, :6], attention_mask=mask, max_new_tokens=10, do_sample=False).tolist())
torch.manual_seed(2)
print("sampled", model.generate(ids[:, :6], attention_mask=mask, max_new_tokens=10, do_sample=True).tolist())
with torch.no_grad():
    cache = DynamicCache(config=config)
    first = model(ids[:, :12], past_key_values=cache, use_cache=True)
    second = model(ids[:, 12:], past_key_values=first.past_key_values, use_cache=True)
    whole = model(ids).logits
    print("cache", cache.get_seq_length(), torch.allclose(second.logits, whole[:, 12:], atol=1e-5))
    print("logits", whole[0, -1, :6].tolist())

model.save_pretrained("llama")
again = LlamaForCausalLM.from_pretrained("llama", dtype=torch.bfloat16).eval()
print("read again", again.dtype, [round(value, 2) for value in again(ids[:1]).logits[0, -1, :3].tolist()])
