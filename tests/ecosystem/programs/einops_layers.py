"""einops: rearrange, reduce, repeat, einsum and pack, and their layers in a network that is trained."""

import torch
from einops import einsum, pack, rearrange, reduce, repeat, unpack
from einops.layers.torch import EinMix, Rearrange, Reduce
from torch import nn

torch.manual_seed(0)
images = torch.randn(8, 3, 16, 16)
labels = torch.randint(5, (8,))

patches = rearrange(images, "b c (h p) (w q) -> b (h w) (p q c)", p=4, q=4)
print("patches", *patches.shape, patches[1, 2, :4].tolist())
print("reduced", reduce(images, "b c (h 4) (w 4) -> b c", "max")[0].tolist())
print("repeated", repeat(images[0, 0, :2, :2], "h w -> (h a) (w b)", a=2, b=3).sum().item())
print("product", einsum(patches, patches, "b i d, b j d -> b i j").square().mean().item())
packed, shapes = pack([images.mean((2, 3)), patches], "b *")
print("packed", *packed.shape, *[tuple(part.shape) for part in unpack(packed, shapes, "b *")])

model = nn.Sequential(
    Rearrange("b c (h p) (w q) -> b (h w) (p q c)", p=4, q=4),
    nn.Linear(48, 32),
    nn.GELU(),
    EinMix("b t c -> b t d", weight_shape="c d", bias_shape="d", c=32, d=24),
    nn.LayerNorm(24),
    Reduce("b t d -> b d", "mean"),
    nn.Linear(24, 5),
)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(10):
    loss = nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    print("step", step, loss.item(), norm.item())
