"""torch_geometric: layers that pass messages, pooling, batches of graphs, transforms and a sampler, in plain Python."""

import torch
import torch_geometric
from torch import nn
from torch_geometric import transforms
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import (
    ChebConv,
    GATConv,
    GATv2Conv,
    GCNConv,
    GINConv,
    GraphNorm,
    MessagePassing,
    SAGEConv,
    Sequential,
    TopKPooling,
    TransformerConv,
    global_add_pool,
    global_max_pool,
    global_mean_pool,
)
from torch_geometric.utils import add_self_loops, degree, softmax, to_dense_adj, to_undirected

torch_geometric.seed_everything(0)
nodes, classes = 24, 3
edges = to_undirected(torch.randint(nodes, (2, 60)), num_nodes=nodes)
labels = torch.arange(nodes) % classes
features = torch.randn(nodes, 6)
features[torch.arange(nodes), labels] += 1.0
weights = torch.rand(edges.shape[1])
print("graph", tuple(edges.shape), edges.sum().item(), degree(edges[0], nodes).tolist())
print("dense", to_dense_adj(edges).sum().item(), softmax(weights, edges[1], num_nodes=nodes).square().sum().item())
print("loops", add_self_loops(edges)[0].shape[1], Data(x=features, edge_index=edges).is_undirected())


class Mean(MessagePassing):
    def __init__(self):
        super().__init__(aggr="mean")
        self.linear = nn.Linear(6, 8)

    def forward(self, x, edge_index):
        return self.propagate(edge_index, x=self.linear(x))

    def message(self, x_i, x_j):
        return torch.tanh(x_i - x_j)


LAYERS = {
    "gcn": lambda: GCNConv(6, 8),
    "gat": lambda: GATConv(6, 4, heads=2, dropout=0.2),
    "gatv2": lambda: GATv2Conv(6, 4, heads=2),
    "sage": lambda: SAGEConv(6, 8),
    "gin": lambda: GINConv(nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8))),
    "cheb": lambda: ChebConv(6, 8, K=3),
    "transformer": lambda: TransformerConv(6, 4, heads=2),
    "mean": Mean,
}
for name, make in LAYERS.items():
    torch.manual_seed(1)
    model = Sequential("x, edge_index", [(make(), "x, edge_index -> x"), nn.ELU(), GraphNorm(8), nn.Linear(8, classes)])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    for step in range(3):
        loss = nn.functional.cross_entropy(model(features, edges), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(name, step, loss.item(), nn.utils.get_total_norm([p.grad for p in model.parameters()]).item())

torch.manual_seed(2)
weighted = GCNConv(6, 4)
adjacency = torch.sparse_coo_tensor(edges.flip(0), weights, (nodes, nodes)).coalesce()
print("weighted", weighted(features, edges, weights).square().sum().item())
print("adjacency", torch.sparse.mm(adjacency, weighted.lin(features)).square().sum().item())


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = GCNConv(3, 16), SAGEConv(16, 16)
        self.pool = TopKPooling(16, ratio=0.7)
        self.head = nn.Linear(48, 2)

    def forward(self, data):
        x = self.conv1(data.x, data.edge_index).relu()
        x, edge_index, _, batch, _, _ = self.pool(x, data.edge_index, None, data.batch)
        x = self.conv2(x, edge_index).relu()
        pooled = [pool(x, batch) for pool in (global_mean_pool, global_max_pool, global_add_pool)]
        return self.head(torch.cat(pooled, 1))


prepare = transforms.Compose([transforms.NormalizeFeatures(), transforms.ToUndirected(), transforms.AddSelfLoops()])
graphs = []
for number in range(12):
    size = 5 + number % 4
    data = Data(x=torch.rand(size, 3), edge_index=torch.randint(size, (2, 8)), y=torch.tensor([number % 2]))
    graphs.append(prepare(data))
torch.manual_seed(3)
model = Classifier()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in DataLoader(graphs, batch_size=4, shuffle=True):
    loss = nn.functional.cross_entropy(model(batch), batch.y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    norm = nn.utils.get_total_norm([p.grad for p in model.parameters()])
    print("graphs", batch.num_graphs, batch.num_nodes, loss.item(), norm.item())
joined = Batch.from_data_list(graphs[:3])
print(joined, [graph.num_edges for graph in joined.to_data_list()])
