"""The built site, as files and in a browser: no messages, no foreign hosts, a search that finds.

Skipped unless `make site` has built it; the browser's part also without Chromium or Playwright.
"""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dubio

SITE = Path(__file__).parents[2] / "site"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PAGES = [
    "index.html",
    "which-method.html",
    "guide-regression.html",
    "gotchas.html",
    "moving.html",
    "one-predict.html",
    "notebooks/five_minutes.html",
    "reference/predict.html",
]
LOADED = re.compile(
    r"""<(?:script|img|iframe|source|video|audio)[^>]*\ssrc=["'](?:https?:)?//"""
    r"""|<link[^>]*rel=["']?(?:stylesheet|preconnect|preload|icon)[^>]*href=["'](?:https?:)?//"""
    r"""|@import\s+(?:url\()?["']?(?:https?:)?//"""
)

pytestmark = pytest.mark.skipif(not (SITE / "index.html").exists(), reason="run `make site`")


def test_nothing_is_loaded_from_elsewhere() -> None:
    for path in (*SITE.rglob("*.html"), *SITE.rglob("*.css")):
        found = LOADED.search(path.read_text(encoding="utf-8"))
        assert found is None, f"{path.relative_to(SITE)}: {found and found[0]}"


def test_public_names_are_in_the_reference() -> None:
    pages = "".join(
        page.read_text(encoding="utf-8") for page in (SITE / "reference").glob("*.html")
    )
    anchors = set(re.findall(r'id="(dubio\.[\w.]+)"', pages))
    short = {anchor.rsplit(".", 1)[1] for anchor in anchors}
    modules = {"attack", "calibrate", "data", "decide", "likelihoods", "masks", "priors", "rules"}
    for space in (dubio, dubio.decide, dubio.data, dubio.calibrate, dubio.likelihoods, dubio.rules):
        assert set(space.__all__) - modules - {"schedules"} <= short, space.__name__


def _foreign(address: str) -> list[str]:
    return [] if address.startswith(("file:", "data:", "blob:")) else [address]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.mark.parametrize("width", [1280, 390])
def test_pages_open_without_messages(browser: Any, width: int) -> None:
    for scheme in ("light", "dark"):
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        said: list[str] = []
        page.on("console", lambda message, said=said: said.append(message.text))
        page.on("pageerror", lambda error, said=said: said.append(str(error)))
        page.on("request", lambda request, said=said: said.extend(_foreign(request.url)))
        for name in PAGES:
            page.goto((SITE / name).as_uri())
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, f"{name} is {wide} pixels wide"
        assert not said, said
        page.close()


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("conformal", "calibrat"),
        ("LSTM", "guide-time-series"),
        ("prune", "reference/layers.html"),
        ("spread zero", "questions"),
        ("resume killed run", "questions"),
        ("how to cite", "cite"),
        ("500 rows", "which-method"),
        ("intervals coverage", "guide-regression"),
    ],
)
def test_search_finds(browser: Any, words: str, wanted: str) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto((SITE / "index.html").as_uri())
    page.locator("[data-md-component=search-query]").click()
    page.keyboard.type(words, delay=20)
    for _ in range(100):  # a busy browser may not listen yet when the first keys go down
        if page.locator(".md-search-result__link").count():
            break
        page.keyboard.press("Shift")
        page.wait_for_timeout(500)
    links = page.locator(".md-search-result__link").evaluate_all("all => all.map(a => a.href)")
    assert any(wanted in link for link in links[:12]), links[:12]
    page.close()
