"""lightning: Trainer.fit with callbacks and clipped gradients, a checkpoint that is read again, and prediction."""

import logging
import warnings

import lightning as L
import torch
from lightning.pytorch.callbacks import EarlyStopping, LearningRateMonitor, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Regression(L.LightningModule):
    def __init__(self, width: int = 16, lr: float = 0.05):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(nn.Linear(3, width), nn.Tanh(), nn.Dropout(0.1), nn.Linear(width, 1))

    def training_step(self, batch, index):
        x, y = batch
        loss = nn.functional.mse_loss(self.net(x), y)
        self.log("train_loss", loss)
        print("train", self.global_step, loss.item())
        return loss

    def on_before_optimizer_step(self, optimizer):
        norms = [p.grad.norm() for p in self.parameters()]
        print("norm", torch.stack(norms).norm().item())

    def validation_step(self, batch, index):
        x, y = batch
        self.log("val_loss", nn.functional.mse_loss(self.net(x), y), prog_bar=True)

    def predict_step(self, batch, index):
        return self.net(batch[0])

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=self.hparams.lr, momentum=0.9)
        return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.7)}


L.seed_everything(7)
x = torch.randn(64, 3)
data = TensorDataset(x, x.prod(1, keepdim=True).sin() + x[:, :1])
train, validation = random_split(data, [48, 16])
best = ModelCheckpoint(dirpath="checkpoints", monitor="val_loss", filename="best")
trainer = L.Trainer(
    max_epochs=4,
    accelerator="cpu",
    gradient_clip_val=1.0,
    accumulate_grad_batches=2,
    enable_progress_bar=False,
    enable_model_summary=False,
    log_every_n_steps=1,
    deterministic=True,
    callbacks=[best, EarlyStopping("val_loss", patience=3), LearningRateMonitor()],
    logger=CSVLogger("logs", name="run"),
)
model = Regression()
trainer.fit(model, DataLoader(train, 8, shuffle=True), DataLoader(validation, 8))
print("validation", trainer.callback_metrics["val_loss"].item(), trainer.current_epoch, trainer.global_step)
again = Regression.load_from_checkpoint(best.best_model_path)
print("checkpoint", again.hparams.width, best.best_model_score.item())
print("validated", trainer.validate(again, DataLoader(validation, 8), verbose=False))
print("predicted", torch.cat(trainer.predict(again, DataLoader(validation, 8))).flatten()[:4].tolist())
