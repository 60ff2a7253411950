"""TensorDicts: indexing, stacking, files; modules that read and write them; parameters; tensorclasses."""

import torch
from tensordict import LazyStackedTensorDict, TensorDict, TensorDictParams, from_module, tensorclass
from tensordict.nn import (
    InteractionType,
    ProbabilisticTensorDictModule,
    TensorDictModule as Mod,
    TensorDictSequential,
    set_interaction_type,
)
from torch import nn

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
td = TensorDict({"a": torch.arange(12.0).view(3, 4), "in": {"b": torch.randn(3, 4, 2)}}, batch_size=[3, 4])
print(td.shape, td[0].shape, td["in", "b"].shape, sorted(td.keys(True), key=str))
print(td[:, 1]["a"].tolist(), td.reshape(-1)["a"].sum().item(), td.permute(1, 0).shape, td.unsqueeze(0).shape)
print(
    torch.stack([td, td], 0).shape,
    torch.cat([td, td], 1).shape,
    td.gather(1, torch.zeros(3, 2, dtype=torch.long)).shape,
)
td2 = td.apply(lambda x: x * 2)
print((td2 == td * 2).all(), td2["in", "b"].sum().item())
td[td["a"] > 5] = TensorDict({"a": torch.zeros(6), "in": {"b": torch.ones(6, 2)}}, [6])
print(td["a"].tolist())
print(
    td.split(2, 0)[0].shape,
    [t.shape for t in td.unbind(0)][:1],
    td.flatten_keys(".").keys().__len__(),
    td.unflatten_keys(".").shape,
)
lazy = LazyStackedTensorDict(td[0], td[1], stack_dim=0)
print(lazy.shape, lazy["a"].tolist())
td.memmap("saved")
back = TensorDict.load_memmap("saved")
print((back == td).all(), back.is_memmap())
torch.save(td, "file.pt")
print((torch.load("file.pt", weights_only=False) == td).all())

net = TensorDictSequential(
    Mod(nn.Sequential(nn.Linear(4, 16), nn.Tanh()), ["obs"], ["hidden"]),
    Mod(nn.Linear(16, 4), ["hidden"], ["out"]),
    Mod(lambda x: (x[..., :2], x[..., 2:].exp()), ["out"], ["loc", "scale"]),
    ProbabilisticTensorDictModule(
        ["loc", "scale"], ["act"], distribution_class=torch.distributions.Normal, return_log_prob=True
    ),
)
opt = torch.optim.Adam(net.parameters(), 1e-2)
data = TensorDict({"obs": torch.randn(32, 4), "target": torch.randn(32, 2)}, [32])
for step in range(5):
    with set_interaction_type(InteractionType.RANDOM):
        out = net(data.clone())
    key = "act_log_prob" if "act_log_prob" in out.keys() else "sample_log_prob"
    loss = ((out["loc"] - out["target"]) ** 2).mean() - 0.01 * out[key].mean() + (out["act"] ** 2).mean() * 0.1
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item(), sum(p.grad.norm().item() for p in net.parameters()))
print(net.in_keys, net.out_keys)

m = nn.Linear(3, 2)
params = from_module(m)
print(sorted(params.keys()), params.data.norm("fro") if False else sorted(params.flatten_keys().keys()))
with params.data.mul(2).to_module(m):
    print(m(torch.ones(3)).tolist())
print(m(torch.ones(3)).tolist())
held = TensorDictParams(TensorDict({"w": torch.ones(2), "n": {"v": torch.zeros(1)}}, []))
print([n for n, _ in held.named_parameters()])
models = [nn.Linear(3, 2) for _ in range(4)]
stacked = TensorDict.from_modules(*models, as_module=False)


def call(p, x):
    with p.to_module(models[0]):
        return models[0](x)


print(torch.vmap(call, (0, None))(stacked, torch.ones(3)).tolist())


@tensorclass
class Data:
    image: torch.Tensor
    label: torch.Tensor
    name: str = "x"


d = Data(torch.ones(4, 3), torch.arange(4), batch_size=[4])
print(d[1:3].label.tolist(), d.shape, d.name, torch.stack([d, d]).image.shape)
