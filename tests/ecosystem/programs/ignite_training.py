"""ignite: a trainer and an evaluator with metrics, handlers of events, early stopping and checkpoints."""

import torch
from ignite.engine import Engine, Events, create_supervised_evaluator, create_supervised_trainer
from ignite.handlers import Checkpoint, DiskSaver, EarlyStopping, PiecewiseLinear, TerminateOnNan, Timer
from ignite.metrics import Accuracy, ConfusionMatrix, Loss, Precision, Recall, RunningAverage
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
points = torch.randn(96, 4)
labels = (points[:, :2].sum(1) > 0).long() + (points[:, 2] > 1).long()
train = DataLoader(TensorDataset(points[:64], labels[:64]), batch_size=16, shuffle=True)
test = DataLoader(TensorDataset(points[64:], labels[64:]), batch_size=16)

model = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
criterion = nn.CrossEntropyLoss()

trainer = create_supervised_trainer(model, optimizer, criterion)
precision, recall = Precision(average=False), Recall(average=False)
evaluator = create_supervised_evaluator(
    model,
    metrics={
        "accuracy": Accuracy(),
        "loss": Loss(criterion),
        "confusion": ConfusionMatrix(num_classes=3),
        "f1": (precision * recall * 2 / (precision + recall + 1e-9)).mean(),
    },
)
RunningAverage(output_transform=lambda loss: loss).attach(trainer, "average")
schedule = PiecewiseLinear(optimizer, "lr", [(0, 0.02), (8, 0.1), (24, 0.01)])
trainer.add_event_handler(Events.ITERATION_STARTED, schedule)
trainer.add_event_handler(Events.ITERATION_COMPLETED, TerminateOnNan())
Timer(average=True).attach(trainer)
saver = Checkpoint(
    {"model": model, "optimizer": optimizer},
    DiskSaver("checkpoints", create_dir=True),
    n_saved=1,
    score_function=lambda engine: engine.state.metrics["accuracy"],
)
evaluator.add_event_handler(Events.COMPLETED, saver)
stopping = EarlyStopping(patience=3, score_function=lambda engine: -engine.state.metrics["loss"], trainer=trainer)
evaluator.add_event_handler(Events.COMPLETED, stopping)


@trainer.on(Events.ITERATION_COMPLETED(every=2))
def report(engine):
    norm = nn.utils.get_total_norm([p.grad for p in model.parameters()])
    print("step", engine.state.iteration, engine.state.output, norm.item(), optimizer.param_groups[0]["lr"])


@trainer.on(Events.EPOCH_COMPLETED)
def evaluate(engine):
    evaluator.run(test)
    metrics = evaluator.state.metrics
    print("epoch", engine.state.epoch, engine.state.metrics["average"], metrics["accuracy"], metrics["loss"])
    print(metrics["confusion"].tolist(), metrics["f1"])


trainer.run(train, max_epochs=5)

saved = torch.load(saver.last_checkpoint)
print(sorted(saved), saved["model"]["0.weight"].norm().item())
again = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))
Checkpoint.load_objects({"model": again}, {"model": saved["model"]})


def predict(engine, batch):
    with torch.inference_mode():
        return again.eval()(batch[0]), batch[1]


counting = Engine(predict)
Accuracy().attach(counting, "accuracy")
print("loaded", counting.run(test).metrics["accuracy"])
