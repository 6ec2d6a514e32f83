"""What there is to know of the paths of a fused function: as text, as data, and as a chart."""

from __future__ import annotations

from html import escape
from typing import Any

_COLOURS = {"measured": "#2f6fb2", "predicted": "#c9d8ea", "chosen": "#3d8b40", "failed": "#b83b3b"}
_ROW, _TEXT, _BAR = 44, 330, 380


def _time(nanoseconds: float | None) -> str:
    if nanoseconds is None:
        return "-"
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.3g} {unit}"
    return f"{nanoseconds:.3g} ns"


def _short(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _status(candidate: dict[str, Any]) -> str:
    status: str = candidate["status"]
    if candidate["reason"] and status != "ok":
        return f"{status.replace('_', ' ')}: {candidate['reason']}"
    return status.replace("_", " ")


class PlanReport:
    """The paths of the groups of a call: candidates with their times, which one is chosen, and why.

    Attributes
    ----------
    function : str
        The name of the function.
    groups : list of dict
        For each group that has run its `candidates`, each with `path`, `backends`, `predicted_ns`, `measured_ns`,
        `error`, `status`, `is_default` and `is_chosen`; `why` the choice is what it is; and the `graph`, `inputs`,
        `environment` and `database`.
    """

    def __init__(self, function: str, groups: list[dict[str, Any]]) -> None:
        self.function, self.groups = function, groups

    def chosen(self) -> list[dict[str, Any]]:
        """The candidate that runs, of each group."""
        return [each for group in self.groups for each in group["candidates"] if each["is_chosen"]]

    def json(self) -> dict[str, Any]:
        """The report as plain data."""
        return {"function": self.function, "groups": self.groups}

    def __str__(self) -> str:
        lines = [f"{self.function}: {len(self.groups)} group{'s' * (len(self.groups) != 1)} planned"]
        for group in self.groups:
            lines.append(f"{group['name']}({', '.join(group['inputs'])})" if "inputs" in group else group["name"])
            rows = [("", "path", "predicted", "measured", "error", "status")]
            for each in group["candidates"]:
                mark = "*" if each["is_chosen"] else " "
                error = "-" if each["error"] is None else f"{each['error']:.1e}"
                name = _short(each["path"], 72) + (" (default)" if each["is_default"] else "")
                times = (_time(each["predicted_ns"]), _time(each["measured_ns"]))
                rows.append((mark, name, *times, error, _status(each)))
            widths = [max(len(row[column]) for row in rows) for column in range(5)]
            for row in rows:
                cells = [f"{cell:<{width}}" for cell, width in zip(row[:5], widths, strict=True)]
                lines.append(f"  {' '.join(cells)} {row[5]}".rstrip())
            lines.append(f"  chosen: {group['why']}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        n_candidates = sum(len(group["candidates"]) for group in self.groups)
        return f"<plan of {self.function}: {len(self.groups)} groups, {n_candidates} paths>"

    def chart(self) -> str:
        """Draws the times of the candidates as bars, as the text of an SVG.

        Measured times are blue, predicted ones pale, and that of the chosen path is green.
        """
        parts: list[str] = []
        y = 56
        for group in self.groups:
            parts.append(f'<text x="24" y="{y}" font-weight="bold">{escape(group["name"])}</text>')
            inputs = ", ".join(group.get("inputs", []))
            parts.append(f'<text x="24" y="{y + 18}" font-size="11" fill="#777">{escape(inputs)}</text>')
            y += 34
            candidates = group["candidates"]
            keys = ("measured_ns", "predicted_ns")
            times = [each[key] for each in candidates for key in keys if each[key] is not None]
            longest = max(times, default=1.0)
            for each in candidates:
                parts.extend(_bars(each, y, longest))
                y += _ROW
            parts.append(f'<text x="24" y="{y + 6}" font-size="12" fill="#444">chosen: {escape(group["why"])}</text>')
            y += 44
        width, height = _TEXT + _BAR + 150, y
        box = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" {box} '
                'font-family="DejaVu Sans, Helvetica, Arial, sans-serif" font-size="13">',
                f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
                f'<text x="24" y="30" font-size="16" font-weight="bold">{escape(self.function)}</text>',
                *parts,
                "</svg>",
            ]
        )

    def _repr_html_(self) -> str:
        return self.chart()


def _bars(candidate: dict[str, Any], y: int, longest: float) -> list[str]:
    name = _short(candidate["path"] + (" (default)" if candidate["is_default"] else ""), 46)
    is_chosen = candidate["is_chosen"]
    weight = ' font-weight="bold"' if is_chosen else ""
    parts = [f'<text x="24" y="{y + 14}" font-size="12"{weight}>{escape(name)}</text>']
    has_failed = candidate["status"] not in ("ok", "not measured", "too_noisy")
    if has_failed:
        reason = _short(_status(candidate), 70)
        return [
            *parts,
            f'<text x="{_TEXT}" y="{y + 14}" font-size="11" fill="{_COLOURS["failed"]}">{escape(reason)}</text>',
        ]
    rows = (("predicted_ns", _COLOURS["predicted"], 15, 9), ("measured_ns", _COLOURS["measured"], 2, 12))
    for key, colour, below, height in rows:
        time = candidate[key]
        if time is None:
            continue
        colour = _COLOURS["chosen"] if is_chosen and key == "measured_ns" else colour
        length = max(round(_BAR * time / longest, 1), 1)
        text = _time(time) + ("" if key == "measured_ns" else " predicted")
        x, low = _TEXT + length + 8, y + below + height - 1
        parts.append(f'<rect x="{_TEXT}" y="{y + below}" width="{length}" height="{height}" rx="2" fill="{colour}"/>')
        parts.append(f'<text x="{x}" y="{low}" font-size="11" fill="#555">{text}</text>')
    return parts
