"""torchinfo: the table of a network's layers, shapes, parameters and sizes."""

import torch
from torch import nn
from torchinfo import summary

torch.manual_seed(0)


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, 16, padding_idx=0)
        self.lstm = nn.LSTM(16, 12, num_layers=2, batch_first=True, bidirectional=True)
        self.attention = nn.MultiheadAttention(24, 4, batch_first=True)
        self.norms = nn.ModuleList([nn.LayerNorm(24), nn.LayerNorm(24)])
        self.head = nn.Linear(24, 5)
        self.scale = nn.Parameter(torch.ones(5), requires_grad=False)

    def forward(self, tokens, weights=None):
        hidden = self.norms[0](self.lstm(self.embedding(tokens))[0])
        hidden = self.norms[1](hidden + self.attention(hidden, hidden, hidden)[0])
        return self.head(hidden.mean(1)) * self.scale


pictures = nn.Sequential(
    nn.Conv2d(3, 8, 3, padding=1),
    nn.BatchNorm2d(8),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Conv2d(8, 16, 3, groups=4, bias=False),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Linear(16, 10),
)
columns = ("input_size", "output_size", "num_params", "params_percent", "kernel_size", "mult_adds", "trainable")
print(summary(pictures, (4, 3, 16, 16), col_names=columns, depth=2, verbose=0))
print(summary(pictures, input_data=torch.zeros(1, 3, 20, 20), row_settings=("var_names", "depth"), verbose=0))
print(summary(Network(), (2, 7), dtypes=[torch.long], col_names=columns, depth=3, verbose=0))
print(summary(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), (2, 5, 16), verbose=0))
found = summary(pictures, (1, 3, 8, 8), verbose=0, mode="train")
print(found.total_params, found.trainable_params, found.total_mult_adds, pictures.training)
