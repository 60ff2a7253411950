"""Medical images: transforms, networks, losses and metrics, sliding windows, a training loop."""

import numpy as np
import torch
from monai import transforms as tf
from monai.data import CacheDataset, DataLoader, MetaTensor
from monai.inferers import sliding_window_inference
from monai.losses import DiceCELoss, DiceLoss, FocalLoss, GeneralizedDiceLoss, TverskyLoss
from monai.metrics import DiceMetric, HausdorffDistanceMetric, SurfaceDistanceMetric
from monai.networks.nets import AttentionUnet, BasicUNet, SegResNet, UNet, ViT
from monai.utils import set_determinism

set_determinism(0)
torch.set_num_threads(1)
rng = np.random.default_rng(0)


def case(i):
    img = rng.normal(size=(1, 32, 32)).astype(np.float32)
    lab = (rng.random((1, 32, 32)) > 0.7).astype(np.float32)
    return {"image": img + lab, "label": lab}


cases = [case(i) for i in range(8)]
pipe = tf.Compose(
    [
        tf.EnsureTyped(["image", "label"]),
        tf.ScaleIntensityd("image"),
        tf.RandFlipd(["image", "label"], 0.5, 0),
        tf.RandRotate90d(["image", "label"], 0.5),
        tf.RandGaussianNoised("image", 0.5, std=0.05),
        tf.RandSpatialCropd(["image", "label"], (24, 24), random_size=False),
    ]
)
loader = DataLoader(CacheDataset(cases, pipe, progress=False), batch_size=4, num_workers=0)
net = UNet(2, 1, 2, (4, 8, 16), (2, 2), num_res_units=1)
loss_fn = DiceCELoss(to_onehot_y=True, softmax=True)
opt = torch.optim.Adam(net.parameters(), 1e-2)
for epoch in range(2):
    for b in loader:
        out = net(b["image"])
        loss = loss_fn(out, b["label"])
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(epoch, type(b["image"]).__name__, tuple(b["image"].shape), f"{loss.item():.7g}")
net.eval()
with torch.no_grad():
    big = torch.as_tensor(cases[0]["image"])[None]
    pred = sliding_window_inference(big, (16, 16), 2, net, overlap=0.25, mode="gaussian")
    print(pred.shape, f"{pred.abs().mean().item():.6g}")
one = tf.AsDiscrete(argmax=True, to_onehot=2)(pred[0])
lab = tf.AsDiscrete(to_onehot=2)(torch.as_tensor(cases[0]["label"]))
for m in (DiceMetric(include_background=False), HausdorffDistanceMetric(), SurfaceDistanceMetric()):
    m([one], [lab])
    print(type(m).__name__, f"{m.aggregate().item():.6g}")
x = torch.randn(2, 2, 16, 16)
y = torch.randint(0, 2, (2, 1, 16, 16))
for L in (
    DiceLoss(to_onehot_y=True, softmax=True),
    FocalLoss(to_onehot_y=True),
    TverskyLoss(to_onehot_y=True, softmax=True),
    GeneralizedDiceLoss(to_onehot_y=True, softmax=True),
):
    z = x.clone().requires_grad_()
    v = L(z, y)
    v.backward()
    print(type(L).__name__, f"{v.item():.6g} {z.grad.norm().item():.6g}")
for N in (
    BasicUNet(2, 1, 2, (4, 4, 8, 8, 16, 4)),
    ViT(
        1,
        (32, 32),
        (8, 8),
        hidden_size=24,
        mlp_dim=32,
        num_layers=2,
        num_heads=2,
        spatial_dims=2,
        classification=True,
        num_classes=3,
    ),
    SegResNet(2, 8, 1, 2),
    AttentionUnet(2, 1, 2, (4, 8), (2,)),
):
    N.eval()
    o = N(torch.ones(1, 1, 32, 32))
    o = o[0] if isinstance(o, tuple) else o
    print(type(N).__name__, f"{o.double().abs().sum().item():.6g}")
img = torch.as_tensor(cases[1]["image"])
for T in (
    tf.Resize((20, 20)),
    tf.Zoom(1.3),
    tf.Rotate(0.3),
    tf.GaussianSmooth(1.0),
    tf.NormalizeIntensity(1.0, 2.0),
    tf.AdjustContrast(1.5),
    tf.SpatialPad((40, 40)),
    tf.CenterSpatialCrop((10, 10)),
    tf.Flip(0),
    tf.Rotate90(),
):
    r = T(img)
    print(type(T).__name__, type(r).__name__, tuple(r.shape), f"{torch.as_tensor(r).double().sum().item():.6g}")
m = MetaTensor(torch.ones(1, 4, 4), affine=torch.eye(4))
print(
    m.affine.tolist()[0],
    (m * 2).meta.keys() == m.meta.keys(),
    tf.Spacing((2.0, 2.0))(MetaTensor(torch.rand(1, 8, 8), affine=torch.eye(4))).shape,
)
inv = tf.Compose([tf.Zoom(1.5, keep_size=False), tf.Flip(0)])
q = MetaTensor(torch.rand(1, 8, 8))
w = inv(q)
print(w.shape, inv.inverse(w).shape)
