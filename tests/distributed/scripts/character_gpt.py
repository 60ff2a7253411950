"""A GPT on characters with a trainer, configurations as dataclasses, and a snapshot."""

import os
import sys
from dataclasses import asdict, dataclass

import torch
import torch.nn as nn
from torch.distributed import destroy_process_group, init_process_group
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, random_split
from torch.utils.data.distributed import DistributedSampler

TEXT = "".join(f"{a} and {b} make {a + b}. " for a in range(12) for b in range(12))


@dataclass
class GPTConfig:
    n_layer: int = 2
    n_head: int = 2
    n_embd: int = 32
    vocab_size: int = None
    block_size: int = None
    embd_pdrop: float = 0.1
    attn_pdrop: float = 0.0


@dataclass
class TrainerConfig:
    max_epochs: int = 2
    batch_size: int = 32
    grad_norm_clip: float = 1.0
    snapshot_path: str = None
    save_every: int = 1
    use_amp: bool = False


@dataclass
class Snapshot:
    model_state: dict
    optimizer_state: dict
    finished_epoch: int


class CharDataset(Dataset):
    def __init__(self, text, block_size):
        letters = sorted(set(text))
        self.stoi = {letter: number for number, letter in enumerate(letters)}
        self.vocab_size, self.block_size, self.text = len(letters), block_size, text

    def __len__(self):
        return (len(self.text) - self.block_size) // 4

    def __getitem__(self, index):
        ids = [self.stoi[letter] for letter in self.text[4 * index : 4 * index + self.block_size + 1]]
        return torch.tensor(ids[:-1], dtype=torch.long), torch.tensor(ids[1:], dtype=torch.long)


class SelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        size = config.block_size
        mask = torch.tril(torch.ones(size, size)).view(1, 1, size, size)
        self.register_buffer("mask", mask)
        self.attn = nn.MultiheadAttention(config.n_embd, config.n_head, dropout=config.attn_pdrop, batch_first=True)

    def forward(self, x):
        length = x.size(1)
        hidden = self.mask[0, 0, :length, :length] == 0
        return self.attn(x, x, x, need_weights=False, attn_mask=hidden)[0]


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        width = config.n_embd
        self.ln1, self.ln2, self.attn = nn.LayerNorm(width), nn.LayerNorm(width), SelfAttention(config)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.tok_emb = nn.Embedding(config.vocab_size, config.n_embd)
        self.pos_emb = nn.Parameter(torch.zeros(1, config.block_size, config.n_embd))
        self.drop = nn.Dropout(config.embd_pdrop)
        self.blocks = nn.ModuleList([Block(config) for _ in range(config.n_layer)])
        self.ln_f = nn.LayerNorm(config.n_embd)
        self.head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.apply(self._init_weights)
        for name, parameter in self.named_parameters():
            if name.endswith("mlp.2.weight"):
                nn.init.normal_(parameter, mean=0.0, std=0.02 / (2 * config.n_layer) ** 0.5)

    def _init_weights(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            module.weight.data.normal_(mean=0.0, std=0.02)
            if isinstance(module, nn.Linear) and module.bias is not None:
                module.bias.data.zero_()

    def forward(self, ids, targets=None):
        x = self.drop(self.tok_emb(ids) + self.pos_emb[:, : ids.size(1)])
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.ln_f(x))
        loss = None
        if targets is not None:
            loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)
        return logits, loss


def create_optimizer(model):
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=3e-3, betas=(0.9, 0.95))


class Trainer:
    def __init__(self, config, model, optimizer, train_set, test_set):
        self.config, self.optimizer = config, optimizer
        self.local_rank, self.global_rank = int(os.environ["LOCAL_RANK"]), int(os.environ["RANK"])
        self.train_loader, self.test_loader = self._loader(train_set), self._loader(test_set)
        acc = torch.accelerator.current_accelerator() if os.environ.get("WANT_CUDA") else None
        self.device = torch.device("cpu") if acc is None else acc
        self.model, self.epochs_run = model.to(self.device), 0
        if config.use_amp:
            self.scaler = torch.amp.GradScaler("cpu", enabled=False)
        try:
            snapshot = Snapshot(**torch.load(config.snapshot_path, map_location="cpu", weights_only=True))
        except FileNotFoundError:
            print("no snapshot: training from the start", flush=True)
        else:
            self.model.load_state_dict(snapshot.model_state)
            self.optimizer.load_state_dict(snapshot.optimizer_state)
            self.epochs_run = snapshot.finished_epoch
        self.model = DDP(self.model)

    def _loader(self, dataset):
        options = {"batch_size": self.config.batch_size, "pin_memory": False, "shuffle": False, "num_workers": 0}
        return DataLoader(dataset, sampler=DistributedSampler(dataset), **options)

    def _run_batch(self, ids, targets, train):
        amp = torch.autocast(device_type="cpu", dtype=torch.bfloat16, enabled=self.config.use_amp)
        with torch.set_grad_enabled(train), amp:
            _, loss = self.model(ids, targets)
        if train:
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.grad_norm_clip)
            self.optimizer.step()
        return loss.item()

    def _run_epoch(self, epoch, loader, train):
        loader.sampler.set_epoch(epoch)
        self.model.train(train)
        for number, (ids, targets) in enumerate(loader):
            loss = self._run_batch(ids.to(self.device), targets.to(self.device), train)
            if number % 2 == 0:
                print(
                    f"[rank {self.global_rank}] epoch {epoch} {'train' if train else 'eval'} loss {loss:.5f}",
                    flush=True,
                )

    def _save_snapshot(self, epoch):
        model = self.model
        raw = model.module if hasattr(model, "module") else model
        snapshot = Snapshot(raw.state_dict(), self.optimizer.state_dict(), epoch)
        torch.save(asdict(snapshot), self.config.snapshot_path)

    def train(self):
        for epoch in range(self.epochs_run, self.config.max_epochs):
            self._run_epoch(epoch + 1, self.train_loader, True)
            if self.local_rank == 0 and (epoch + 1) % self.config.save_every == 0:
                self._save_snapshot(epoch + 1)
            self._run_epoch(epoch + 1, self.test_loader, False)


def main(path, epochs, amp):
    init_process_group(backend="gloo")
    torch.manual_seed(42)
    dataset = CharDataset(TEXT, 24)
    count = int(len(dataset) * 0.9)
    train_set, test_set = random_split(dataset, [count, len(dataset) - count])
    model = GPT(GPTConfig(vocab_size=dataset.vocab_size, block_size=dataset.block_size))
    config = TrainerConfig(max_epochs=epochs, snapshot_path=path, use_amp=amp)
    Trainer(config, model, create_optimizer(model), train_set, test_set).train()
    destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3:] == ["amp"])
