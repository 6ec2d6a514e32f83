"""The examples of the reference of `.loom` and of its tutorial run, and give what the pages say."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import polyloom as loom
import pytest
from test_guide import pattern_of, run

ROOT = Path(__file__).parents[2]
PAGES = [*sorted((ROOT / "docs" / "loom").glob("*.md")), ROOT / "docs" / "guide" / "loom.md"]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks(page):
    """The fenced blocks of a page: language, text, line, and the text block that directly follows, if there is one."""
    text = page.read_text(encoding="utf-8")
    found = [(match[1], match[2], text.count("\n", 0, match.start(1)), match) for match in FENCE.finditer(text)]
    for index, (language, body, line, match) in enumerate(found):
        following = found[index + 1] if index + 1 < len(found) else None
        is_next = following and following[0] == "text" and not text[match.end() : following[3].start()].strip()
        yield language, body, line, following[1] if is_next else None


def run_commands(text, folder):
    """Runs the commands of a block, each of which is followed by what it prints."""
    parts = re.split(r"^\$ polyloom ", text, flags=re.MULTILINE)
    for part in parts[1:]:
        command, _, wanted = part.partition("\n")
        done = subprocess.run(
            [sys.executable, "-m", "polyloom", *command.split()], cwd=folder, capture_output=True, text=True
        )
        given = done.stdout + done.stderr
        assert pattern_of(wanted).fullmatch(given) if wanted else not given, f"{command}:\n{given}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "page", "loom": loom, "np": np}
    for language, text, line, result in blocks(page):
        where = f"{page.name}, line {line}"
        if language == "loom":
            named = re.match(r"// (\w+\.loom)\n", text)
            file = tmp_path / (named[1] if named else f"{page.stem.replace('-', '_')}.loom")
            file.write_text(text)
            is_wrong = result is not None and "error[" in result.split("\n…")[0]
            if is_wrong:
                with pytest.raises(loom.CompileError) as caught:
                    loom.import_module(file.name)
                if not result.startswith("$ "):
                    assert pattern_of(result).fullmatch(str(caught.value).rstrip("\n") + "\n"), (
                        f"{where}: {caught.value}"
                    )
            else:
                try:
                    namespace["module"] = loom.import_module(file.name)
                except loom.CompileError as error:
                    pytest.fail(f"{where}: {error}")
        elif language == "python":
            printed = run("\n" * (line + 1) + text, str(page), namespace)
            if result is not None:
                assert pattern_of(result).fullmatch(printed.rstrip("\n") + "\n"), f"{where}:\n{printed}"
        if result is not None and result.startswith("$ "):
            run_commands(result, tmp_path)


def test_every_construct_has_a_page():
    index = (ROOT / "docs" / "loom" / "index.md").read_text()
    navigation = (ROOT / "mkdocs.yml").read_text()
    pages = {page.stem for page in (ROOT / "docs" / "loom").glob("*.md")}
    assert set(re.findall(r"\((\w[\w-]*)\.md\)", index)) == pages - {"index"}
    assert set(re.findall(r"loom/([\w-]+)\.md", navigation)) >= pages
