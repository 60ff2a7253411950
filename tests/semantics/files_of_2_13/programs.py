"""What record.py saved: modules, optimizers and schedules by name, made with any library."""

from __future__ import annotations

from typing import Any

DTYPES = (
    *("bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
    *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
)
MODULES: dict[str, Any] = {
    "convolution": lambda torch: torch.nn.Sequential(
        torch.nn.Conv2d(1, 2, 3, padding="same", padding_mode="reflect"),
        torch.nn.BatchNorm2d(2),
        torch.nn.GELU(approximate="tanh"),
        torch.nn.MaxPool2d(2),
        torch.nn.ConvTranspose2d(2, 2, 2, stride=2),
        torch.nn.GroupNorm(1, 2),
        torch.nn.Upsample(scale_factor=2, mode="bilinear"),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
    ),
    "recurrent": lambda torch: torch.nn.LSTM(2, 2, num_layers=2, bidirectional=True, batch_first=True, proj_size=1),
    "gated": lambda torch: torch.nn.GRU(2, 3),
    "attention": lambda torch: torch.nn.TransformerEncoder(
        torch.nn.TransformerEncoderLayer(4, 2, 6, dropout=0.0, batch_first=True), 1, enable_nested_tensor=False
    ),
    "embedding": lambda torch: torch.nn.Sequential(
        torch.nn.Embedding(5, 2, padding_idx=0), torch.nn.LayerNorm(2), torch.nn.Dropout(0.5), torch.nn.PReLU()
    ),
    "normalized": lambda torch: torch.nn.Sequential(
        torch.nn.utils.weight_norm(torch.nn.Linear(2, 3)), torch.nn.BatchNorm1d(3)
    ),
    "parts": lambda torch: torch.nn.ModuleDict(
        {
            "list": torch.nn.ModuleList([torch.nn.Linear(1, 1), torch.nn.Bilinear(1, 1, 1)]),
            "numbers": torch.nn.ParameterDict({"a": torch.nn.Parameter(torch.ones(1))}),
            "row": torch.nn.ParameterList([torch.nn.Parameter(torch.zeros(1))]),
            "loss": torch.nn.CrossEntropyLoss(weight=torch.ones(2), label_smoothing=0.1),
        }
    ),
    # These two are classes of their own instance, which are saved as states only.
    "parametrized": lambda torch: torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(2, 3)),
    "spectral": lambda torch: torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(2, 3)),
}
STATES_ONLY = ("parametrized", "spectral")
OPTIMIZERS: dict[str, dict[str, Any]] = {
    "ASGD": {"lr": 0.1},
    "Adadelta": {"lr": 0.5},
    "Adafactor": {"lr": 0.1},
    "Adagrad": {"lr": 0.1},
    "Adam": {"lr": 0.1, "amsgrad": True},
    "AdamW": {"lr": 0.1, "weight_decay": 0.5},
    "Adamax": {"lr": 0.1},
    "LBFGS": {"lr": 0.1, "max_iter": 2},
    "Muon": {"lr": 0.1},
    "NAdam": {"lr": 0.1},
    "RAdam": {"lr": 0.1},
    "RMSprop": {"lr": 0.1, "centered": True, "momentum": 0.5},
    "Rprop": {"lr": 0.1},
    "SGD": {"lr": 0.1, "momentum": 0.9, "nesterov": True},
}
SCHEDULERS: dict[str, dict[str, Any]] = {
    "ConstantLR": {},
    "CosineAnnealingLR": {"T_max": 5},
    "CosineAnnealingWarmRestarts": {"T_0": 2},
    "CyclicLR": {"base_lr": 0.1, "max_lr": 0.5},
    "ExponentialLR": {"gamma": 0.5},
    "LinearLR": {},
    "MultiStepLR": {"milestones": [2, 4]},
    "OneCycleLR": {"max_lr": 0.5, "total_steps": 8},
    "PolynomialLR": {"power": 2},
    "ReduceLROnPlateau": {"patience": 1},
    "StepLR": {"step_size": 2},
}


def inputs(torch: Any, name: str) -> list[Any]:
    """Return the inputs of a module of MODULES."""
    if name == "embedding":
        return [torch.tensor([[0, 1], [4, 2]])]
    shape = {"convolution": (2, 1, 4, 4), "recurrent": (1, 3, 2), "gated": (3, 1, 2), "attention": (2, 3, 4)}.get(
        name, (4, 2)
    )
    count = 1
    for size in shape:
        count *= size
    return [torch.linspace(-1, 1, count).view(shape).sin()]


def outputs(torch: Any, module: Any, name: str) -> Any:
    """Return what a module of MODULES computes, as lists."""
    if name == "parts":
        x = module["list"][0](torch.ones(1, 1))
        result = module["list"][1](x, x) * module["numbers"]["a"] + module["row"][0]
        return (module["loss"](torch.ones(2, 2), torch.tensor([0, 1])) + result.sum()).tolist()
    result = module(*inputs(torch, name))
    return (result[0] if isinstance(result, tuple) else result).tolist()


def step(optimizer: Any, parameter: Any) -> None:
    """Take a step of an optimizer toward a minimum of a function of a matrix."""

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (parameter**2).sum() + parameter.prod()
        loss.backward()
        return loss

    optimizer.step(closure)
