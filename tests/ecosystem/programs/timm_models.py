"""timm: image models, a training step with its optimizer, schedule and average of weights."""

import numpy as np
import timm
import torch
from timm.data import Mixup
from timm.loss import LabelSmoothingCrossEntropy, SoftTargetCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import ModelEmaV3

torch.manual_seed(0)
images, labels = torch.randn(4, 3, 32, 32).double(), torch.tensor([0, 1, 2, 1])
settings = {
    "vit_tiny_patch16_224": {"img_size": 32, "patch_size": 8, "embed_dim": 24, "depth": 2, "num_heads": 2},
    "resnet10t": {},
    "convnext_atto": {"depths": (1, 1, 1, 1), "dims": (8, 16, 24, 32)},
    "efficientnet_b0": {},
}
for name, options in settings.items():
    torch.manual_seed(1)
    model = timm.create_model(name, pretrained=False, num_classes=3, **options).double()
    optimizer = create_optimizer_v2(model, opt="lamb" if "vit" in name else "adamw", lr=1e-3, weight_decay=0.05)
    schedule = CosineLRScheduler(optimizer, t_initial=4, warmup_t=1, warmup_lr_init=1e-5)
    average = ModelEmaV3(model, decay=0.9)
    for step in range(2):
        optimizer.zero_grad()
        loss = LabelSmoothingCrossEntropy(0.1)(model(images), labels)
        loss.backward()
        optimizer.step()
        schedule.step(step + 1)
        average.update(model)
        print(name, loss.item(), optimizer.param_groups[0]["lr"])
    model.eval()
    with torch.no_grad():
        print(name, model.forward_features(images).double().mean().item(), average.module(images).double().sum().item())
np.random.seed(0)
mixed, targets = Mixup(mixup_alpha=0.2, label_smoothing=0.1, num_classes=3)(images.clone(), labels)
print("mixed", mixed.mean().item(), SoftTargetCrossEntropy()(torch.zeros(4, 3), targets).item())
