"""Counts what CONTRIBUTING asks of names and comments in the Rust sources, and prints each beside its limit.

    python scripts/census.py [FOLDER]

Tests are left out, as they are in the counts of other code bases that the limits were taken from.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

TYPE = re.compile(r"\s*(?:pub(?:\([^)]*\))? )?(?:struct|enum|trait) (\w+)")
FUNCTION = re.compile(r"(\s*)(?:pub(?:\([^)]*\))? )?(?:const )?(?:unsafe )?(?:extern \"C\" )?fn \w+")
HEADLESS = re.compile(r"(?:What|Whether|Which|How|Where|Of|By|As) ")
REASON = re.compile(r"\b(?:because|since|so that|otherwise|note that|for example|e\.g\.)", re.IGNORECASE)
LONG_FUNCTION = 80


def sources(folder: Path) -> Iterator[list[str]]:
    """Yields the lines of each file that is no test."""
    for path in sorted(folder.rglob("*.rs")):
        inside = path.relative_to(folder).parts
        if "tests" not in inside and "target" not in inside and path.name != "tests.rs":
            yield path.read_text().split("\n")


def comments(lines: list[str]) -> Iterator[str]:
    """Yields the text of each run of comment lines, those at the heads of files left out."""
    text: list[str] = []
    for line in [*lines, ""]:
        stripped = line.strip()
        if stripped.startswith("//") and (text or not stripped.startswith("//!")):
            text.append(stripped.lstrip("/!").strip())
        elif text:
            yield " ".join(text)
            text = []


def function_lengths(lines: list[str]) -> Iterator[int]:
    """Yields the number of lines of each function with a body."""
    for start, line in enumerate(lines):
        if found := FUNCTION.match(line):
            end = start
            while end < len(lines) and not lines[end].startswith(found[1] + "}"):
                if lines[end].rstrip().endswith(";") and "{" not in "".join(lines[start : end + 1]):
                    break
                end += 1
            yield end - start + 1


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent / "crates")
    files = list(sources(folder))
    types = Counter(found[1] for lines in files for line in lines if (found := TYPE.match(line)))
    of_one_word = sum(n for name, n in types.items() if len(re.findall(r"[A-Z][a-z0-9]*", name)) == 1)
    texts = [text for lines in files for text in comments(lines)]
    lengths = [length for lines in files for length in function_lengths(lines)]

    headless = sum(HEADLESS.match(text) is not None for text in texts)
    reasoned = sum(REASON.search(text) is not None for text in texts)
    long = sum(length > LONG_FUNCTION for length in lengths)
    for what, part, whole, limit in [
        ("type names of one word", of_one_word, types.total(), "at most 30 %"),
        ("comments without a subject or a verb", headless, len(texts), "at most 2 %"),
        ("comments with a reason", reasoned, len(texts), "at least 6 %"),
        (f"functions of more than {LONG_FUNCTION} lines", long, len(lengths), "at most 2 %"),
    ]:
        print(f"{100 * part / max(whole, 1):6.1f} %  {what} ({limit})")
    repeated = sum(n > 2 for n in types.values())
    print(f"{repeated:6}    type names defined three times or more (at most 20)")
    print(f"{len(files):6}    files, {sum(map(len, files)):,} lines")


if __name__ == "__main__":
    main()
