"""The site in a browser: no formula is cut off or stands in a scroll bar that it does not need, and the search finds
the names that programs use first.

Skipped where `make docs` has not built the site, or where no Chromium is found.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess

import pytest

from tests.docs.test_site import SITE, pytestmark as built
from tests.waiting import LIMIT

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
BROWSER = next((found for name in BROWSERS if (found := shutil.which(name))), None)
pytestmark = [
    built,
    pytest.mark.skipif(BROWSER is None, reason=f"no browser: none of {', '.join(BROWSERS)} is installed"),
]

# Runs in the page, and leaves what it measured where --dump-dom shows it.
MEASURE = """<script>addEventListener('load', () => {
  const found = [...document.querySelectorAll('.formula')].map(box => {
    const math = box.firstElementChild, style = getComputedStyle(box), own = getComputedStyle(math)
    return {tex: math.textContent, overflow: own.overflowX + ' ' + own.overflowY,
            width: math.getBoundingClientRect().width + parseFloat(style.paddingLeft) + parseFloat(style.paddingRight),
            inner: [box.clientWidth, box.clientHeight], content: [box.scrollWidth, box.scrollHeight]}
  })
  const pre = document.createElement('pre')
  pre.id = 'measured'
  pre.textContent = JSON.stringify(found)
  document.body.append(pre)
})</script>"""


def measured(page: str, width: int, folder) -> list[dict]:
    """What a browser window of some width says about the formulas of a page."""
    shutil.copytree(SITE / "assets", folder / "assets", ignore=shutil.ignore_patterns("*.map", "*.js", "images"))
    copy = folder / page
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_text((SITE / page).read_text(encoding="utf-8").replace("</body>", f"{MEASURE}</body>"), encoding="utf-8")
    dom = browsed(copy.as_uri(), folder, f"--window-size={width},900", "--virtual-time-budget=5000")
    found = re.search(r'<pre id="measured">(.*?)</pre>', dom, re.DOTALL)
    assert found
    return json.loads(html.unescape(found[1]))


def browsed(address: str, folder, *options: str) -> str:
    """The page at an address after its scripts ran."""
    assert BROWSER is not None
    common = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}", "--dump-dom"]
    done = subprocess.run([BROWSER, *common, *options, address], capture_output=True, text=True, timeout=LIMIT)
    assert done.stdout.strip(), done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize("width", [1280, 600])
@pytest.mark.parametrize("page", ["operators/activation.html", "operators/linalg.html"])
def test_formulas_are_whole(page, width, tmp_path):
    formulas = measured(page, width, tmp_path)
    assert len(formulas) > 20
    for formula in formulas:
        assert formula["overflow"] == "visible visible", formula  # a formula that scrolls cuts its own ink
        assert formula["content"][1] <= formula["inner"][1], formula
        scrolls = formula["content"][0] > formula["inner"][0]
        assert scrolls == (formula["width"] > formula["inner"][0] + 0.5), formula


def results(query: str, folder) -> list[str]:
    """The pages that the search of the site finds, best first."""
    address = f"{(SITE / 'index.html').as_uri()}?q={query}"
    dom = browsed(address, folder, "--allow-file-access-from-files", "--virtual-time-budget=30000")
    found = re.findall(r'<a href="[^"]*/site/([^"?#]*)[^"]*" class="md-search-result__link"', dom)
    return list(dict.fromkeys(found))


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("softmax", {"api/nn.functional/softmax.html", "api/nn/Softmax.html"}),
        ("conv2d", {"api/nn.functional/conv2d.html", "api/nn/Conv2d.html"}),
        ("adam", {"api/optim/Adam.html"}),
        ("dataloader", {"api/utils.data/DataLoader.html"}),
    ],
)
def test_the_search_finds_names_of_programs_first(query, first, tmp_path):
    found = results(query, tmp_path)
    assert set(found[: len(first)]) == first, found[:5]
