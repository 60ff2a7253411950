"""pytorch-metric-learning: losses with miners, reducers, distances and a memory, and the accuracy calculator's k-NN."""

import torch
from pytorch_metric_learning import distances, losses, miners, reducers, regularizers
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
from pytorch_metric_learning.utils.inference import CustomKNN
from torch import nn

torch.manual_seed(0)
points = torch.randn(48, 6)
labels = torch.arange(48) % 4
points[torch.arange(48), labels] += 2.0

LOSSES = {
    "triplet": lambda: losses.TripletMarginLoss(
        distance=distances.CosineSimilarity(), reducer=reducers.ThresholdReducer(low=0)
    ),
    "contrastive": lambda: losses.ContrastiveLoss(pos_margin=0.1, neg_margin=0.9),
    "ntxent": lambda: losses.NTXentLoss(temperature=0.2),
    "supcon": lambda: losses.SupConLoss(),
    "multisimilarity": lambda: losses.MultiSimilarityLoss(),
    "circle": lambda: losses.CircleLoss(),
    "lifted": lambda: losses.LiftedStructureLoss(),
    "fastap": lambda: losses.FastAPLoss(num_bins=6),
    "angular": lambda: losses.AngularLoss(),
    "nca": lambda: losses.NCALoss(),
    "margin": lambda: losses.MarginLoss(embedding_regularizer=regularizers.LpRegularizer()),
    "arcface": lambda: losses.ArcFaceLoss(4, 5),
    "proxyanchor": lambda: losses.ProxyAnchorLoss(4, 5),
    "softtriple": lambda: losses.SoftTripleLoss(4, 5, centers_per_class=3),
    "memory": lambda: losses.CrossBatchMemory(losses.NTXentLoss(), 5, memory_size=64),
}
for name, make in LOSSES.items():
    torch.manual_seed(1)
    model, criterion = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 5)), make()
    miner = miners.MultiSimilarityMiner(epsilon=0.2) if name in ("triplet", "multisimilarity") else None
    parameters = [*model.parameters(), *criterion.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=0.01)
    for _ in range(3):
        embeddings = model(points)
        pairs = miner(embeddings, labels) if miner else None
        loss = criterion(embeddings, labels, pairs) if pairs else criterion(embeddings, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        norm = nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
        print(name, loss.item(), norm.item())

hard, semi = miners.BatchHardMiner(), miners.TripletMarginMiner(margin=0.1, type_of_triplets="semihard")
with torch.no_grad():
    embeddings = model(points)
print("mined", [len(part) for part in hard(embeddings, labels)], [len(part) for part in semi(embeddings, labels)])
calculator = AccuracyCalculator(
    include=("precision_at_1", "r_precision", "mean_average_precision_at_r"),
    k="max_bin_count",
    knn_func=CustomKNN(distances.LpDistance()),
)
for name, value in sorted(calculator.get_accuracy(embeddings, labels).items()):
    print(name, value)
