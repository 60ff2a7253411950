"""Watch a network at work: hooks that see every layer's input, output and gradient, in the order they fire.

Every line works with `import torch` in place of the import below.
"""

import gradloom as torch

nn = torch.nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))


def before(layer, inputs):
    print(f"forward   {type(layer).__name__:8} takes {tuple(inputs[0].shape)}")


def after(layer, inputs, output):
    print(f"forward   {type(layer).__name__:8} gives {tuple(output.shape)}")


def backward(layer, grad_inputs, grad_outputs):
    print(
        f"backward  {type(layer).__name__:8} takes {tuple(grad_outputs[0].shape)}, "
        f"norm {grad_outputs[0].norm().item():.4f}"
    )


handles = []
for layer in net:
    handles.append(layer.register_forward_pre_hook(before))
    handles.append(layer.register_forward_hook(after))
    handles.append(layer.register_full_backward_hook(backward))

batch = torch.randn(5, 4, requires_grad=True)
net(batch).sum().backward()

for handle in handles:
    handle.remove()
net(batch)  # silent now
