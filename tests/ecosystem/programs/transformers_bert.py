"""transformers: a small BERT is trained to classify and to fill masks, in float32 and under bfloat16 autocast."""

import torch
from transformers import BertConfig, BertForMaskedLM, BertForSequenceClassification

config = BertConfig(
    vocab_size=60,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=48,
    max_position_embeddings=32,
    num_labels=3,
)
torch.manual_seed(0)
ids = torch.randint(5, 60, (6, 16))
mask = torch.ones_like(ids)
mask[::2, 11:] = 0


def train(name, model, **labels):
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(6):
        loss = model(ids, attention_mask=mask, **labels).loss
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print(name, step, loss.item(), norm.item())
    return model


for attention in ("eager", "sdpa"):
    config._attn_implementation = attention
    torch.manual_seed(1)
    classifier = train(f"classes {attention}", BertForSequenceClassification(config), labels=torch.arange(6) % 3)

labels = ids.where(torch.rand(ids.shape) < 0.3, -100)
masked = train("masked", BertForMaskedLM(config), labels=labels)
masked.eval()
with torch.no_grad():
    result = masked(ids, attention_mask=mask, output_hidden_states=True)
    print("hidden states", *[state.norm().item() for state in result.hidden_states])

classifier.eval().save_pretrained("bert", max_shard_size="20KB")
again = BertForSequenceClassification.from_pretrained("bert", dtype=torch.float64).eval()
with torch.no_grad():
    print("read again", again.dtype, again(ids, attention_mask=mask).logits.tolist())
