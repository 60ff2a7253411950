"""safetensors: files, slices of them and whole models, of all dtypes that have a place in the format."""

import torch
from safetensors import safe_open
from safetensors.torch import load, load_file, load_model, save, save_file, save_model
from torch import nn

torch.manual_seed(0)
kinds = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
         torch.uint8, torch.bool, torch.complex64, torch.uint16, torch.float8_e4m3fn, torch.float8_e5m2]  # fmt: skip
tensors = {str(kind): (torch.randn(3, 4) * 3).abs().to(kind) for kind in kinds}
tensors["transposed"] = torch.arange(6.0).view(2, 3).t().contiguous()
save_file(tensors, "all.safetensors", metadata={"made": "here"})
again = load_file("all.safetensors")
for name, tensor in sorted(again.items()):
    same = torch.equal(tensor.view(torch.uint8), tensors[name].contiguous().view(torch.uint8))
    print(name, tensor.dtype, tuple(tensor.shape), same, tensor.to(torch.complex128).real.sum().item())
print("bytes", len(save(tensors)), sorted(load(save(tensors))) == sorted(tensors))
with safe_open("all.safetensors", framework="pt", device="cpu") as file:
    print("metadata", file.metadata(), len(file.keys()))
    part = file.get_slice("torch.float64")
    print("slice", part.get_shape(), part[1:, :2].tolist())


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(7, 4), nn.Linear(4, 7, bias=False)
        self.head.weight = self.embedding.weight


model, other = Tied(), Tied()
save_model(model, "tied.safetensors")
print("missing", load_model(other, "tied.safetensors"))
print("tied", torch.equal(model.head.weight, other.embedding.weight), other.head.weight is other.embedding.weight)
try:
    save_file(model.state_dict(), "shared.safetensors")
except RuntimeError as error:
    print("refused", "share memory" in str(error))
