"""transformers: a small vision transformer is trained with groups of parameters and a cosine schedule."""

import torch
from transformers import ViTConfig, ViTForImageClassification, get_cosine_schedule_with_warmup

torch.manual_seed(0)
images, labels = torch.randn(8, 3, 16, 16), torch.arange(8) % 4
for attention in ("eager", "sdpa"):
    torch.manual_seed(1)
    model = ViTForImageClassification(
        ViTConfig(
            image_size=16,
            patch_size=4,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=48,
            num_labels=4,
            attn_implementation=attention,
        )
    )
    matrices = [p for p in model.parameters() if p.ndim > 1]
    vectors = [p for p in model.parameters() if p.ndim <= 1]
    groups = [{"params": matrices, "weight_decay": 0.05}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=2e-3)
    schedule = get_cosine_schedule_with_warmup(optimizer, 2, 10)
    for step in range(8):
        loss = model(pixel_values=images, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        print(attention, step, loss.item(), norm.item(), schedule.get_last_lr()[0])
model.eval().save_pretrained("vit")
again = ViTForImageClassification.from_pretrained("vit").eval()
with torch.no_grad():
    print("read again", again(pixel_values=images).logits[0].tolist())
