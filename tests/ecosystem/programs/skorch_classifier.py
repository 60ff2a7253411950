"""skorch: networks as scikit-learn's estimators: in a pipeline, cross-validation, a grid search, and with callbacks."""

import numpy as np
import torch
from sklearn.datasets import make_classification, make_regression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from skorch import NeuralNetClassifier, NeuralNetRegressor
from skorch.callbacks import Checkpoint, EarlyStopping, EpochScoring, GradientNormClipping, LRScheduler
from skorch.dataset import ValidSplit
from torch import nn

inputs, targets = make_classification(160, 10, n_informative=5, random_state=0)
inputs, targets = inputs.astype(np.float32), targets.astype(np.int64)


class Net(nn.Module):
    def __init__(self, units=10, activation=nn.ReLU):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(10, units), activation(), nn.Dropout(0.2), nn.Linear(units, 2))

    def forward(self, X):
        return self.layers(X)


def shown(history):
    for row in history:
        keys = ("epoch", "train_loss", "valid_loss", "valid_acc", "accuracy", "event_lr")
        print("epoch", *[row[key] for key in keys if key in row])


torch.manual_seed(0)
net = NeuralNetClassifier(
    Net,
    criterion=nn.CrossEntropyLoss,
    max_epochs=5,
    lr=0.1,
    batch_size=32,
    optimizer=torch.optim.SGD,
    optimizer__momentum=0.9,
    iterator_train__shuffle=True,
    verbose=0,
    callbacks=[
        ("scoring", EpochScoring("accuracy", on_train=True, name="accuracy")),
        ("schedule", LRScheduler(policy="StepLR", step_size=2, gamma=0.5)),
        ("stopping", EarlyStopping(patience=4)),
        ("clipping", GradientNormClipping(1.0)),
        ("checkpoint", Checkpoint(dirname="checkpoints", monitor="valid_loss_best")),
    ],
)
net.fit(inputs, targets)
shown(net.history)
print("probabilities", net.predict_proba(inputs[:3]).tolist(), net.score(inputs, targets))
norm = torch.linalg.vector_norm(torch.cat([p.detach().flatten() for p in net.module_.parameters()]))
print("norm", norm.item())
net.save_params(f_params="params.pt", f_optimizer="optimizer.pt", f_history="history.json")
again = NeuralNetClassifier(Net, criterion=nn.CrossEntropyLoss, verbose=0).initialize()
again.load_params(f_params="params.pt")
print("loaded", bool((again.predict(inputs) == net.predict(inputs)).all()))
net.partial_fit(inputs, targets)
shown(net.history[-1:])

torch.manual_seed(1)
pipeline = Pipeline([("scale", StandardScaler()), ("net", NeuralNetClassifier(Net, max_epochs=3, lr=0.1, verbose=0))])
pipeline.set_params(net__criterion=nn.CrossEntropyLoss, net__train_split=ValidSplit(4, stratified=True))
print("validation", cross_val_score(pipeline, inputs, targets, cv=3).tolist())
search = GridSearchCV(pipeline, {"net__lr": [0.05, 0.2], "net__module__units": [6, 12]}, cv=2, refit=False)
search.fit(inputs, targets)
print("search", search.best_params_, search.cv_results_["mean_test_score"].tolist())

torch.manual_seed(2)
x, y = make_regression(80, 10, random_state=0)
regressor = NeuralNetRegressor(
    nn.Sequential(nn.Linear(10, 8), nn.Tanh(), nn.Linear(8, 1)), optimizer=torch.optim.AdamW, max_epochs=4, verbose=0
)
regressor.fit(x.astype(np.float32), (y / 100).astype(np.float32)[:, None])
shown(regressor.history)
