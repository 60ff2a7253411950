"""Formulas as a browser lays them out: none is cut off, and none stands in a scroll bar that it does not need.

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
    assert BROWSER is not None
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}"]
    window = [f"--window-size={width},900", "--virtual-time-budget=5000", "--dump-dom", copy.as_uri()]
    done = subprocess.run([BROWSER, *options, *window], capture_output=True, text=True, timeout=LIMIT)
    found = re.search(r'<pre id="measured">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, done.stderr[-2000:]
    return json.loads(html.unescape(found[1]))


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
