"""Make the pictures of the README and the pages anew, in docs/assets/.

python docs/_generator/pictures.py            # the drawings, in a second
python docs/_generator/pictures.py --demo     # also the demo's result, in two minutes; needs gradloom[demo]
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import gradloom as torch
from gradloom.utils import viz

ROOT = Path(__file__).resolve().parents[2]
ASSETS = ROOT / "docs" / "assets"
LARGEST = 100_000  # bytes of a picture


def graph() -> str:
    """Return the graph of the example in docs/viz.md."""
    w = torch.ones(2, 3, requires_grad=True)
    loss = (w * torch.ones(3)).tanh().sum()
    return viz.graph(loss, params={"w": w})._own_svg()  # whether or not Graphviz is installed


def network() -> str:
    """Return the graph of a network's loss, with the names of its parameters."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    x = torch.randn(64, 2)
    loss = torch.nn.functional.mse_loss(net(x), x[:, :1] * x[:, 1:])
    return viz.graph({"loss": loss}, params=net, saved=False)._own_svg()


def jacobian() -> str:
    """Return the Jacobian of softmax at six points, as cells with their numbers; red is positive, blue negative."""
    x = torch.linspace(-0.5, 0.5, 6, dtype=torch.float64)
    rows = torch.func.jacrev(lambda x: torch.softmax(x, dim=0))(x).tolist()
    side, largest = 44, max(abs(v) for row in rows for v in row)
    size = side * len(rows)
    cells = []
    for i, row in enumerate(rows):
        for j, value in enumerate(row):
            share = (abs(value) / largest) ** 0.5  # small values differ in color, too
            strong = (200, 40, 40) if value > 0 else (31, 98, 176)
            color = "#" + "".join(f"{round(255 + (c - 255) * share):02x}" for c in strong)
            ink = "#ffffff" if share > 0.6 else "#282c34"
            at = f'x="{j * side}" y="{i * side}"'
            middle = f'x="{j * side + side // 2}" y="{i * side + side // 2 + 4}"'
            cells.append(f'<rect {at} width="{side}" height="{side}" fill="{color}"/>')
            cells.append(f'<text {middle} fill="{ink}">{value:.2f}</text>')
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{size}" height="{size}" viewBox="0 0 {size} {size}" role="img"'
    )
    font = 'font-family="Helvetica, Arial, sans-serif" font-size="11" text-anchor="middle"'
    return "\n".join([f"{head} {font}>", "<title>the Jacobian of softmax</title>", *cells, "</svg>", ""])


DRAWINGS = {"graph.svg": graph, "network.svg": network, "jacobian.svg": jacobian}


def demo() -> bytes:
    """Run the demo; return its picture, with fewer colors."""
    import io

    from PIL import Image

    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, ROOT / "examples" / "train_digits.py", "--out", folder], check=True)
        with Image.open(Path(folder) / "digits.png") as picture:
            small = picture.quantize(64)
    buffer = io.BytesIO()
    small.save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def main(with_demo: bool) -> None:
    for name, draw in DRAWINGS.items():
        (ASSETS / name).write_text(draw(), encoding="utf-8")
    if with_demo:
        (ASSETS / "digits.png").write_bytes(demo())
    for path in sorted(ASSETS.glob("*.svg")) + sorted(ASSETS.glob("*.png")):
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main("--demo" in sys.argv[1:])
