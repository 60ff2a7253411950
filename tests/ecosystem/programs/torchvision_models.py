"""torchvision: models that are trained, transforms of images and tensors, boxes."""

import numpy as np
import torch
from PIL import Image
from torch import nn
from torchvision import models, ops, transforms
from torchvision.transforms import v2

torch.manual_seed(0)
pixels = np.random.RandomState(0).randint(0, 255, (40, 48, 3)).astype(np.uint8)
classic = transforms.Compose(
    [
        transforms.Resize(32),
        transforms.RandomCrop(28, padding=2),
        transforms.RandomHorizontalFlip(),
        transforms.ColorJitter(0.2, 0.2, 0.2),
        transforms.ToTensor(),
        transforms.Normalize((0.5, 0.5, 0.5), (0.2, 0.2, 0.2)),
        transforms.RandomErasing(p=1.0),
    ]
)
print("classic", classic(Image.fromarray(pixels)).double().mean().item())
modern = v2.Compose(
    [
        v2.RandomResizedCrop(24, antialias=True),
        v2.RandomRotation(20),
        v2.GaussianBlur(3),
        v2.ToDtype(torch.float32, scale=True),
    ]
)
images = torch.stack([modern(torch.from_numpy(pixels).permute(2, 0, 1)) for _ in range(8)]).double()
print("modern", images.double().mean().item(), images.double().std().item())

labels = torch.arange(8) % 3
for make in (models.resnet18, models.mobilenet_v3_small, models.shufflenet_v2_x0_5):
    torch.manual_seed(1)
    model = make(weights=None, num_classes=3).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for _ in range(2):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print(make.__name__, loss.item(), norm.item())
torch.manual_seed(2)
vit = models.VisionTransformer(24, 8, 2, 2, 16, 32, num_classes=3).double()
nn.init.normal_(vit.heads.head.weight, std=0.1)
loss = nn.functional.cross_entropy(vit(images), labels)
loss.backward()
print("vit", loss.item(), vit.conv_proj.weight.grad.norm().item())
boxes = torch.tensor([[0.0, 0.0, 10.0, 10.0], [5.0, 5.0, 15.0, 12.0], [1.0, 1.0, 9.0, 11.0]])
print("boxes", ops.box_iou(boxes, boxes).sum().item(), ops.generalized_box_iou_loss(boxes[:2], boxes[1:], "sum").item())
print(
    "focal",
    ops.sigmoid_focal_loss(torch.linspace(-2, 2, 6), torch.tensor([0.0, 1, 0, 1, 0, 1]), reduction="mean").item(),
)
