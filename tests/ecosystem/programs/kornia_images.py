"""kornia: filters, geometry, losses and augmentations of images, with gradients."""

import kornia
import torch
from kornia import augmentation, enhance, filters, geometry, losses, metrics

torch.manual_seed(0)
images = torch.rand(2, 3, 16, 20, requires_grad=True)
found = {
    "gray": kornia.color.rgb_to_grayscale(images),
    "lab": kornia.color.rgb_to_lab(images.detach()),
    "blur": filters.gaussian_blur2d(images, (5, 5), (1.5, 1.5)),
    "sobel": filters.sobel(images),
    "canny": filters.canny(images.detach())[0],
    "median": filters.median_blur(images, (3, 3)),
    "rotate": geometry.rotate(images, torch.tensor([20.0, -10.0])),
    "resize": geometry.resize(images, (8, 8), antialias=True),
    "pyramid": geometry.pyrdown(images),
    "gamma": enhance.adjust_gamma(images, 1.3),
    "equalize": enhance.equalize(images.detach()),
}
for name, value in found.items():
    print(name, value.double().mean().item(), value.double().std().item())
total = sum(value.mean() for value in found.values() if value.requires_grad)
total.backward()
print("gradient", images.grad.norm().item())
points = torch.tensor([[[0.0, 0], [1, 0], [1, 1], [0, 1]]])
moved = torch.tensor([[[0.1, 0], [1.2, 0.1], [1, 1.1], [0, 0.9]]])
print("homography", geometry.get_perspective_transform(points, moved).flatten().tolist())
target = images.detach().roll(1, -1)
print("ssim", losses.ssim_loss(images, target, 5).item(), metrics.psnr(images, target, 1.0).item())
print("dice", losses.dice_loss(torch.randn(2, 3, 4, 4), torch.randint(0, 3, (2, 4, 4))).item())
torch.manual_seed(1)
steps = augmentation.AugmentationSequential(
    augmentation.RandomHorizontalFlip(p=0.5),
    augmentation.RandomAffine(15.0, p=1.0),
    augmentation.ColorJitter(0.1, 0.1, 0.1, p=1.0),
    data_keys=["input"],
)
print("augmented", steps(images.detach()).double().mean().item())
