"""Draws the calls of a fused function as an SVG."""

from __future__ import annotations

from html import escape
from typing import Any

_ROW, _BOX, _LEFT, _WIDTH = 80, 34, 56, 240
_COLOURS = ("#e8f1fb", "#eaf6ea", "#fdf1e1", "#f3eafa", "#fbe9ec", "#e6f5f5")
_EDGES = ("#2f6fb2", "#3d8b40", "#c77700", "#7d4aa8", "#b83b52", "#218a8a")


def drawn(report: dict[str, Any], plan: dict[str, Any]) -> str:
    """The calls from top to bottom in evaluation order, kernels as boxes around them, breaks as dashed lines."""
    calls, lines = report["labels"], report["lines"]
    kernel_of = {call: n for n, kernel in enumerate(report["kernels"]) for call in kernel["calls"]}
    top = 64
    place = {call: (_LEFT, top + _ROW * call) for call in range(len(calls))}
    reasons = [_wrapped(f"line {each['line']}: {each['reason']}") for each in report["breaks"]]
    text_left = _LEFT + _WIDTH + 120
    height = max(top + _ROW * len(calls) + 16, top + sum(18 * len(each) + 22 for each in reasons) + 16)
    width = text_left + (470 if reasons else -60)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="DejaVu Sans, Helvetica, Arial, sans-serif" font-size="13">',
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z" fill="#444"/></marker></defs>',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="24" y="32" font-size="16" font-weight="bold">{escape(report["function"])}</text>',
    ]
    for n, kernel in enumerate(report["kernels"]):
        for run in _runs(kernel["calls"]):
            y = place[run[0]][1] - 12
            tall = _ROW * (len(run) - 1) + _BOX + 24
            parts.append(
                f'<rect x="{_LEFT - 24}" y="{y}" width="{_WIDTH + 48}" height="{tall}" rx="10" '
                f'fill="{_COLOURS[n % len(_COLOURS)]}" stroke="{_EDGES[n % len(_EDGES)]}" stroke-width="1.5"/>'
            )
        x, y = place[kernel["calls"][0]]
        parts.append(
            f'<text x="{_LEFT + _WIDTH + 18}" y="{y - 17}" text-anchor="end" font-size="11" '
            f'fill="{_EDGES[n % len(_EDGES)]}">kernel {n}, at its {kernel["exec_at"]} call</text>'
        )
    drawn_edges: set[tuple[int, int]] = set()
    for group in plan["groups"]:
        for member, described in enumerate(group["members"]):
            for producer in _producers([*described["arguments"], *(each for _, each in described["keywords"])]):
                edge = (group["calls"][producer], group["calls"][member])
                if edge not in drawn_edges:
                    drawn_edges.add(edge)
                    parts.append(_edge(place, edge, "#444", ""))
    y = top
    for n, (each, rows) in enumerate(zip(report["breaks"], reasons, strict=True)):
        edge = (each["producer"], each["consumer"])
        parts.append(_edge(place, edge, "#b83b3b", 'stroke-dasharray="5,4"', side=n))
        middle = (place[edge[0]][1] + place[edge[1]][1] + _BOX) / 2
        parts.append(
            f'<path d="M{_LEFT + _WIDTH + 0.75 * (34 + 8 * (n % 6))},{middle} L{text_left - 10},{y + 10}" '
            'stroke="#d9a3a3" fill="none"/>'
        )
        for row, text in enumerate(rows):
            parts.append(
                f'<text x="{text_left}" y="{y + 14 + 18 * row}" font-size="12" fill="#8a2f2f">{escape(text)}</text>'
            )
        y += 18 * len(rows) + 22
    for call, name in enumerate(calls):
        x, y = place[call]
        stroke = _EDGES[kernel_of[call] % len(_EDGES)] if call in kernel_of else "#888"
        parts.append(
            f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_BOX}" rx="6" fill="#ffffff" stroke="{stroke}"/>'
            f'<text x="{x + 12}" y="{y + 22}" font-weight="bold">{escape(name)}</text>'
            f'<text x="{x + _WIDTH - 12}" y="{y + 22}" text-anchor="end" fill="#777" font-size="11">'
            f"line {lines[call]}</text>"
        )
    return "\n".join([*parts, "</svg>"])


def _edge(place: dict[int, tuple[int, int]], edge: tuple[int, int], colour: str, style: str, side: int = -1) -> str:
    (x, y), (_, below) = place[edge[0]], place[edge[1]]
    if side < 0 and edge[1] == edge[0] + 1:
        path = f"M{x + _WIDTH / 2},{y + _BOX} L{x + _WIDTH / 2},{below - 2}"
    elif side < 0:
        out = x - 10 - 3 * min(edge[1] - edge[0], 4)
        path = f"M{x},{y + _BOX / 2} C{out},{y + _BOX / 2} {out},{below + _BOX / 2} {x - 2},{below + _BOX / 2}"
    else:
        out = x + _WIDTH + 34 + 8 * (side % 6)
        right = x + _WIDTH
        path = f"M{right},{y + _BOX / 2} C{out},{y + _BOX / 2} {out},{below + _BOX / 2} {right + 2},{below + _BOX / 2}"
    return f'<path d="{path}" stroke="{colour}" stroke-width="1.4" fill="none" marker-end="url(#arrow)" {style}/>'


def _producers(operands: list[Any]) -> list[int]:
    found: list[int] = []
    for operand in operands:
        ((kind, value),) = operand.items()
        if kind == "call":
            found.append(value)
        elif kind == "list":
            found += _producers(value)
    return found


def _runs(calls: list[int]) -> list[list[int]]:
    """Neighbours among the calls of a kernel, which one box goes around."""
    runs: list[list[int]] = []
    for call in calls:
        if runs and runs[-1][-1] + 1 == call:
            runs[-1].append(call)
        else:
            runs.append([call])
    return runs


def _wrapped(text: str, width: int = 62) -> list[str]:
    rows = [""]
    for word in text.split():
        if rows[-1] and len(rows[-1]) + 1 + len(word) > width:
            rows.append(word)
        else:
            rows[-1] = f"{rows[-1]} {word}".strip()
    return rows
