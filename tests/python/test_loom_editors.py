"""The grammars of ``editors`` know every keyword, type and operator of ``.loom``, and every token of the examples."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "crates" / "polyloom-frontend" / "src" / "loom"
GRAMMAR = json.loads((ROOT / "editors" / "textmate" / "loom.tmLanguage.json").read_text())
TREE_SITTER = (ROOT / "editors" / "tree-sitter-loom" / "grammar.js").read_text()
HIGHLIGHTS = (ROOT / "editors" / "tree-sitter-loom" / "queries" / "highlights.scm").read_text()
RULES = [(re.compile(rule["match"], re.MULTILINE), rule) for rule in GRAMMAR["patterns"]]

TOKENS = (SOURCE / "token.rs").read_text()
KEYWORDS = re.findall(r' = "(\w+)"', re.search(r"^keywords! \{\n(.*?)^\}", TOKENS, re.DOTALL | re.MULTILINE)[1])
SYMBOLS = re.findall(r'"([^"]+)"', re.search(r"SYMBOLS: .*? = &\[(.*?)\];", TOKENS, re.DOTALL)[1])
SCALARS = re.findall(r'\("(\w+)", Scalar', (SOURCE / "types.rs").read_text())
# Symbols that the lexer knows for the sake of its messages.
NO_OPERATORS = {"&&", "||", "!"}


def tokens(text):
    """The tokens of a text with their scopes, as an editor finds them: of each line the rule that matches first."""
    found = []
    for line in text.splitlines():
        at = 0
        while at < len(line):
            matches = [(match.start(), order, match, rule) for order, (pattern, rule) in enumerate(RULES)
                       if (match := pattern.search(line, at)) and match.end() > at]  # fmt: skip
            if not matches:
                assert not line[at:].strip(), line
                break
            start, _, match, rule = min(matches, key=lambda one: one[:2])
            assert not line[at:start].strip(), line
            for group, scope in rule.get("captures", {}).items():
                found.append((match[int(group)], scope["name"]))
            if "name" in rule:
                found.append((match[0], rule["name"]))
            at = match.end()
    return found


def scope_of(text):
    [(token, scope)] = tokens(text)
    assert token == text
    return scope


EXAMPLES = sorted((ROOT / "examples" / "loom").rglob("*.loom"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_token_of_an_example_has_a_scope(path):
    text = path.read_text()
    found = tokens(text)
    assert not [token for token, scope in found if scope.startswith("invalid")]
    code = re.sub(r'//.*|"[^"]*"', " ", text)
    # What is no keyword to the compiler is none to the editor, and the other way round; names of annotations are none.
    words = [word for at, word in re.findall(r"(@?)\b([A-Za-z_]\w*)", code) if not at and word in KEYWORDS]
    scoped = [
        token.strip()
        for token, scope in found
        if scope.startswith(("keyword.control", "keyword.declaration", "keyword.operator.word", "constant.language"))
    ]
    contextual = {"as", "reduce", "scan", "step", "type"}
    assert [word for word in scoped if word not in contextual] == words


def test_keywords_types_and_operators_are_those_of_the_lexer():
    assert len(KEYWORDS) > 20 and len(SYMBOLS) > 40 and len(SCALARS) == 13
    for word in KEYWORDS:
        assert scope_of(word).startswith(("keyword", "constant.language")), word
        assert f'"{word}"' in TREE_SITTER, word
    for name in SCALARS:
        assert scope_of(name) == "storage.type.loom", name
        assert f'"{name}"' in TREE_SITTER, name
    for symbol in SYMBOLS:
        if symbol == "@" or symbol in NO_OPERATORS:
            continue
        assert scope_of(symbol) in ("keyword.operator.loom", "punctuation.loom"), symbol
        assert f'"{symbol}"' in TREE_SITTER or f"'{symbol}'" in TREE_SITTER, symbol


def test_numbers_texts_and_comments():
    for number in ("0", "1_000", "1.5", "2.", "1e-3", "0xffu8", "0b101", "1.0f64", "3bf16"):
        assert scope_of(number) == "constant.numeric.loom", number
    assert [token for token, _ in tokens("0..n")] == ["0", "..", "n"]
    assert scope_of('"a \\" b"') == "string.quoted.double.loom"
    assert scope_of("/// text") == "comment.line.documentation.loom"
    assert scope_of("//// text") == "comment.line.double-slash.loom"


def test_highlights_name_rules_of_the_grammar():
    rules = set(re.findall(r"^    (\w+): \(", TREE_SITTER, re.MULTILINE))
    assert set(re.findall(r"\((\w+)", HIGHLIGHTS)) <= rules
