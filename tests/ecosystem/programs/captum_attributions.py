"""captum: attributions by gradients, by differences to a baseline, of layers and by occlusion."""

import torch
from captum.attr import (
    DeepLift,
    FeatureAblation,
    GuidedBackprop,
    GuidedGradCam,
    InputXGradient,
    IntegratedGradients,
    LayerActivation,
    LayerConductance,
    LayerGradCam,
    LayerIntegratedGradients,
    NeuronConductance,
    NoiseTunnel,
    Occlusion,
    Saliency,
    ShapleyValueSampling,
)
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 3, padding=1)
        self.relu1 = nn.ReLU()
        self.pool = nn.MaxPool2d(2)
        self.conv2 = nn.Conv2d(4, 6, 3)
        self.relu2 = nn.ReLU()
        self.head = nn.Linear(6 * 2 * 2, 3)

    def forward(self, images):
        hidden = self.pool(self.relu1(self.conv1(images)))
        return self.head(self.relu2(self.conv2(hidden)).flatten(1))


def show(name, value):
    for number, part in enumerate(value if isinstance(value, tuple) else (value,)):
        print(name, number, tuple(part.shape), part.sum().item(), part.abs().max().item(), part.double().norm().item())


model = Net().eval()
images, targets = torch.randn(5, 1, 8, 8), torch.tensor([0, 1, 2, 1, 0])
baselines = torch.randn(5, 1, 8, 8) * 0.1

attributions, delta = IntegratedGradients(model).attribute(
    images, baselines, target=targets, n_steps=20, return_convergence_delta=True
)
show("integrated", (attributions, delta))
show("batched", IntegratedGradients(model).attribute(images, target=1, n_steps=20, internal_batch_size=10))
show("saliency", Saliency(model).attribute(images, target=targets))
show("input x gradient", InputXGradient(model).attribute(images, target=targets))
show("deeplift", DeepLift(model).attribute(images, baselines, target=targets, return_convergence_delta=True))
show("guided", GuidedBackprop(model).attribute(images, target=targets))
show("gradcam", LayerGradCam(model, model.conv2).attribute(images, target=targets))
show("guided gradcam", GuidedGradCam(model, model.conv2).attribute(images, target=targets))
show("activation", LayerActivation(model, model.relu1).attribute(images))
show("conductance", LayerConductance(model, model.conv1).attribute(images, target=targets, n_steps=10))
show("layer", LayerIntegratedGradients(model, model.conv2).attribute(images, target=targets, n_steps=10))
show("neuron", NeuronConductance(model, model.conv2).attribute(images, (2, 1, 0), target=targets, n_steps=10))
show(
    "occlusion", Occlusion(model).attribute(images, sliding_window_shapes=(1, 3, 3), strides=(1, 2, 2), target=targets)
)
regions = torch.arange(64).view(1, 1, 8, 8) // 16
show("ablation", FeatureAblation(model).attribute(images, target=targets, feature_mask=regions))
show("shapley", ShapleyValueSampling(model).attribute(images, target=targets, feature_mask=regions, n_samples=3))
torch.manual_seed(1)
show("smooth", NoiseTunnel(Saliency(model)).attribute(images, nt_type="smoothgrad_sq", nt_samples=4, target=targets))
