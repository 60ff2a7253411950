"""Train a small convolutional network on real handwritten digits. `make demo` runs this.

The network and the training loop are what one writes with PyTorch: put `import torch` in place of the one
import of gradloom below and the program is the same. It prints the accuracy on images that it was not trained
on, and leaves in the folder --out

    digits.safetensors   the trained weights
    digits.png           the loss curve, and predictions on held-out images with right and wrong marked

With --ranks 2, two processes train it together: each computes the gradients of its part of every batch, and
torch.nn.parallel.DistributedDataParallel averages them.

Exit code: 0, or 1 when training diverges, 2 when data or --out cannot be used, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

import digits_data
import digits_report
import numpy as np
import output

import gradloom as torch

nn = torch.nn
F = torch.nn.functional
dist = torch.distributed


class DigitNet(nn.Module):
    """Two convolutions and two linear layers, from (N, 1, 28, 28) images to (N, 10) log-probabilities."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 20, 5)
        self.conv2 = nn.Conv2d(20, 50, 5)
        self.fc1 = nn.Linear(800, 500)
        self.fc2 = nn.Linear(500, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = x.view(-1, 800)
        x = F.relu(self.fc1(x))
        return F.log_softmax(self.fc2(x), dim=1)


def train(net, data, args, rng, progress, rank):
    """Run args.epochs epochs of SGD over the jittered training images; return the loss of every step."""
    if args.ranks > 1:
        net = nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=args.lr, momentum=args.momentum)
    losses = []
    net.train()
    for epoch in range(args.epochs):
        for group in optimizer.param_groups:
            group["lr"] = args.lr * (1 - epoch / args.epochs)
        order = torch.randperm(len(data.train_labels)).numpy()
        for start in range(0, len(order), args.batch_size):
            batch = order[start : start + args.batch_size]
            images = torch.from_numpy(digits_data.jitter(data.train_images[batch], rng))
            labels = torch.from_numpy(data.train_labels[batch])
            optimizer.zero_grad()
            loss = loss_of_part(net, images[rank :: args.ranks], labels[rank :: args.ranks], len(batch))
            (loss * args.ranks).backward()  # the ranks' gradients are averaged, but their losses add up
            optimizer.step()
            losses.append(total(loss.detach(), args.ranks))
            if not np.isfinite(losses[-1]):
                raise Diverged(f"the loss is {losses[-1]} at step {len(losses)}; try --lr below {args.lr}")
            progress.set_postfix(epoch=f"{epoch + 1}/{args.epochs}", loss=f"{losses[-1]:.4f}", refresh=False)
            progress.update()
    return losses


def loss_of_part(net, images, labels, size):
    """Return what a part of a batch of `size` images adds to the batch's loss."""
    return F.nll_loss(net(images), labels, reduction="sum") / size


def total(loss, ranks):
    """Return the sum of all ranks' losses."""
    if ranks > 1:
        dist.all_reduce(loss)
    return loss.item()


def predict(net, images):
    """Return the predicted digit, int64 (N,), of each of the (N, 1, 28, 28) images."""
    net.eval()
    parts = []
    with torch.no_grad():
        for start in range(0, len(images), 250):
            scores = net(torch.from_numpy(images[start : start + 250]))
            parts.append(scores.argmax(dim=1).numpy())
    return np.concatenate(parts)


class Diverged(Exception):
    """The loss is no longer finite; the message is one line for the user."""


def parse_arguments(argv):
    parser = argparse.ArgumentParser(description="Train a small convolutional network on handwritten digits.")
    parser.add_argument(
        "--data",
        metavar="DIR",
        help="folder with MNIST's four idx files, gzipped or not "
        "(without it: the 1,797 digits that come with scikit-learn)",
    )
    parser.add_argument("--epochs", type=_number(int, 1), help="default: 20, or 2 for MNIST's many images")
    parser.add_argument("--batch-size", type=_number(int, 1), default=64, help="default: %(default)s")
    parser.add_argument(
        "--lr",
        type=_number(float, 0),
        default=0.1,
        help="learning rate to begin with; it falls evenly (default: %(default)s)",
    )
    parser.add_argument("--momentum", type=_number(float, 0, 1), default=0.5, help="default: %(default)s")
    parser.add_argument("--ranks", type=_number(int, 1), default=1, help="processes that train (default: 1)")
    parser.add_argument("--seed", type=_number(int, 0, 2**32 - 1), default=0, help="default: %(default)s")
    parser.add_argument("--out", metavar="DIR", default="demo-output", help="default: %(default)s")
    args = parser.parse_args(argv)
    if args.epochs is None:
        args.epochs = 20 if args.data is None else 2
    return args


def _number(kind, low, high=float("inf")):
    def parse(text):
        value = kind(text)
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(
                f"{text} is not between {low} and {high}" if high < float("inf") else f"{text} is less than {low}"
            )
        return value

    parse.__name__ = kind.__name__  # argparse says "invalid int value" with it
    return parse


def run(args, rank=0):
    from tqdm import tqdm

    began = time.perf_counter()
    out = output.make_folder(Path(args.out))  # before the work, not after it
    data = digits_data.load(args.data)
    if rank == 0:
        print(f"{data.name}: {len(data.train_labels):,} images to train on, {len(data.test_labels):,} held out")

    torch.manual_seed(args.seed)
    net = DigitNet()
    steps = args.epochs * -(-len(data.train_labels) // args.batch_size)
    with tqdm(total=steps, unit="step", desc="training", dynamic_ncols=True, disable=rank > 0) as progress:
        losses = train(net, data, args, np.random.default_rng(args.seed), progress, rank)
    if rank > 0:
        return

    predicted = predict(net, data.test_images)
    right = int((predicted == data.test_labels).sum())
    accuracy = right / len(predicted)
    seconds = time.perf_counter() - began
    print(f"held-out accuracy: {accuracy:.2%} ({right:,} of {len(predicted):,}), after {seconds:.0f} s")

    weights = {name: tensor.numpy() for name, tensor in net.state_dict().items()}
    for path in (
        digits_report.save_weights(out / "digits.safetensors", weights),
        digits_report.save_picture(out / "digits.png", losses, accuracy, data, predicted),
    ):
        print(f"wrote {path}")


def main(argv=None):
    """Run the program on `argv`; return its exit code."""
    args = parse_arguments(argv)
    return guarded(args) if args.ranks == 1 else on_ranks(args)


def on_ranks(args):
    """Run the program in args.ranks processes; return the exit code of the first that fails."""
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // args.ranks)))
    try:
        with tempfile.TemporaryDirectory() as folder:
            torch.multiprocessing.spawn(as_rank, (args, f"file://{folder}/ranks"), args.ranks)
    except torch.multiprocessing.ProcessExitedException as error:
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    return 0


def as_rank(rank, args, where):
    """Be one of the processes that train together; they meet at `where`."""
    dist.init_process_group("gloo", init_method=where, rank=rank, world_size=args.ranks)
    code = guarded(args, rank)
    dist.destroy_process_group()
    if code:
        sys.exit(code)


def guarded(args, rank=0):
    """Run the program; return the exit code. What is wrong is one line on stderr, of the first rank."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # a half-written file is removed then, too
    errors = sys.stderr if rank == 0 else open(os.devnull, "w")
    try:
        run(args, rank)
    except (digits_data.DataError, output.OutputError, Diverged) as error:
        print(f"error: {error}", file=errors)
        return 1 if isinstance(error, Diverged) else 2
    except ImportError as error:
        if error.name is None or error.name.partition(".")[0] not in ("tqdm", "PIL", "safetensors"):
            raise
        print(f"error: {error.name} is missing; get it with: pip install 'gradloom[demo]'", file=errors)
        return 2
    except KeyboardInterrupt:
        print("\ninterrupted; nothing was written", file=errors)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
