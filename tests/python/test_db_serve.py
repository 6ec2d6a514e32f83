"""`polyloom db serve`: pages by their text, and as Chromium lays them out.

`POLYLOOM_SCREENSHOTS=FOLDER` keeps pictures of all kinds of pages.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import browser
import pytest

RECORDS = Path(__file__).parent / "data" / "benchmarks.jsonl"
HOSTILE = "<script>document.title = \"owned\"</script><img src=x onerror=alert('1')>"
VOID = {"meta", "link", "input", "rect", "line", "circle", "path", "br"}
# Everything that can be wider than the window scrolls in a frame of its own.
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
OUTSIDE = """
[...document.querySelectorAll("body *")].filter(each => {
  const box = each.getBoundingClientRect();
  return box.width > 0 && box.right > document.documentElement.clientWidth + 1
    && !each.closest(".scroll, .drawing, pre, thead");
}).map(each => each.outerHTML.slice(0, 200))
"""


def run(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "polyloom", "db", *arguments], check=True, capture_output=True)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server over a database with something of everything."""
    database = str(tmp_path_factory.mktemp("database") / "benchmarks.db")
    run("init", "--database", database)
    run("import", "--database", database, str(RECORDS))
    command = [sys.executable, "-m", "polyloom", "db", "serve", "--database", database]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip().rstrip("/")
        process.terminate()


def get(address: str) -> str:
    with urllib.request.urlopen(address, timeout=30) as answer:
        return answer.read().decode()


class Outline(HTMLParser):
    """Notes texts, links, headings and whatever is nested wrongly."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.links: list[str] = []
        self.headings: list[str] = []
        self.texts: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        values = dict(attrs)
        if tag == "a":
            self.links.append(values.get("href") or "")
        if tag == "svg" and "aria-label" not in values and values.get("aria-hidden") != "true":
            self.wrong.append("" if values.get("class") == "graph" else f"a picture without a name: {values}")
        if tag == "th" and "scope" not in values:
            self.wrong.append("a heading of a table without its scope")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"</{tag}> ends what is not open")

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
        if self.open and re.fullmatch("h[1-6]", self.open[-1]):
            self.headings.append(self.open[-1])


def outline(page: str) -> Outline:
    parsed = Outline()
    parsed.feed(page)
    parsed.close()
    parsed.wrong = [each for each in parsed.wrong if each] + [f"<{tag}> does not end" for tag in parsed.open]
    return parsed


@pytest.fixture(scope="module")
def pages(url: str) -> dict[str, str]:
    """All pages that links lead to, by their targets."""
    found: dict[str, str] = {}
    waiting = ["/"]
    while waiting:
        target = waiting.pop()
        if target not in found:
            found[target] = get(url + target)
            waiting += [link.split("#")[0] for link in outline(found[target]).links]
    return found


def kinds(pages: dict[str, str]) -> dict[str, str]:
    """A page of each kind, by a name for its picture; the one that has most to show."""
    longest: dict[str, str] = {}
    for target, page in pages.items():
        name = target.split("/")[1].split("?")[0] or "overview"
        if name not in longest or len(page) > len(pages[longest[name]]):
            longest[name] = target
    return longest


def test_pages_are_well_formed_and_every_link_leads_somewhere(pages):
    assert len(pages) > 30
    for target, page in pages.items():
        parsed = outline(page)
        assert parsed.wrong == [], target
        assert parsed.headings[0] == "h1" and parsed.headings.count("h1") == 1, target
        assert parsed.tags.isdisjoint({"script", "img", "iframe", "style", "object"}), target
        assert all(link.startswith("/") for link in parsed.links), target


def test_texts_of_the_database_are_shown_as_they_are(pages):
    texts = ["".join(outline(page).texts) for page in pages.values()]
    # A reason, the model of a CPU, the name of an input, a session, a policy, a text that is no graph.
    for text in [HOSTILE, f"8592+ {HOSTILE}", 'thursday-"><b>', "hot-1&<b>", f"softmax(x) {HOSTILE}"]:
        assert any(text in each for each in texts), text
    assert any("at line 3 of <stdin>" in each for each in texts)


def test_the_choice_and_its_reason_are_told(pages):
    chosen = [page for target, page in pages.items() if target.startswith("/workload/") and 'class="chosen"' in page]
    texts = ["".join(outline(page).texts) for page in chosen]
    assert any("It is chosen because it takes 0." in each for each in texts)
    assert any("nothing beats it beyond the noise" in each for each in texts)
    assert any("the default fails, and this is the fastest path that works" in each for each in texts)


def test_only_this_machine_is_answered(url):
    request = urllib.request.Request(url + "/", headers={"Host": "evil.example"})
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=30)
    assert refused.value.code == 403
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(url + "/", data=b"x=1", timeout=30)
    assert refused.value.code == 405


def test_pages_fit_wide_and_narrow_windows(url, pages, tmp_path):
    folder = Path(os.environ.get("POLYLOOM_SCREENSHOTS", tmp_path / "screenshots"))
    folder.mkdir(parents=True, exist_ok=True)
    with browser.HeadlessBrowser(tmp_path / "profile") as chromium:
        for name, target in kinds(pages).items():
            for width in (1400, 390):
                for scheme in ("light", "dark"):
                    said = chromium.open(url + target, width, scheme)
                    assert said == [], (target, width)
                    assert chromium.evaluate(OVERFLOW) == 0, (target, width, chromium.evaluate(OUTSIDE))
                    assert chromium.evaluate(OUTSIDE) == [], (target, width)
                    # No text of the database has run, and the style has been loaded.
                    assert chromium.evaluate("document.title").endswith("Polyloom benchmarks")
                    assert chromium.evaluate("getComputedStyle(document.body).marginTop") == "0px"
                    chromium.screenshot(folder / f"{name}-{width}-{scheme}.png")
