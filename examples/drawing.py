"""Panels side by side in a PNG, for the examples that fit something: pictures, lines, and the curve of the loss."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

SIDE, MARGIN, SCALE = 360, 28, 2
BACKGROUND, INK, FRAME = (250, 249, 246), (45, 50, 60), (190, 190, 190)
BLUE, ORANGE, GREY = (40, 95, 170), (225, 110, 40), (180, 184, 192)

Box = tuple[float, float, float, float]


class Panels:
    """A row of square panels, each with a title and coordinates of its own."""

    def __init__(self, n: int) -> None:
        self._image = Image.new(
            "RGB", (SCALE * (n * (SIDE + MARGIN) + MARGIN), SCALE * (SIDE + 3 * MARGIN)), BACKGROUND
        )
        self._draw = ImageDraw.Draw(self._image)
        self._font = ImageFont.load_default(SCALE * 14)
        self._n = 0

    def begin(self, title: str, box: Box = (0.0, 0.0, 1.0, 1.0)) -> None:
        """Begins the next panel: x and y of its lower left corner, then of its upper right one."""
        self._left, self._top = SCALE * (MARGIN + self._n * (SIDE + MARGIN)), SCALE * 2 * MARGIN
        self._box = box
        self._n += 1
        self._draw.text((self._left, self._top - SCALE * 24), title, INK, self._font)
        end = (self._left + SCALE * SIDE, self._top + SCALE * SIDE)
        self._draw.rectangle([(self._left, self._top), end], (255, 255, 255), FRAME, SCALE)

    def _place(self, points: np.ndarray) -> list[tuple[float, float]]:
        x0, y0, x1, y1 = self._box
        x = self._left + SCALE * SIDE * (points[:, 0] - x0) / (x1 - x0)
        y = self._top + SCALE * SIDE * (y1 - points[:, 1]) / (y1 - y0)
        return list(zip(x.tolist(), y.tolist(), strict=True))

    def line(self, points: np.ndarray, colour: tuple[int, int, int], width: int = 2) -> None:
        self._draw.line(self._place(points), colour, SCALE * width, joint="curve")

    def dots(self, points: np.ndarray, colour: tuple[int, int, int], radius: float = 3) -> None:
        r = SCALE * radius
        for x, y in self._place(points):
            self._draw.ellipse([x - r, y - r, x + r, y + r], colour)

    def words(self, x: float, y: float, text: str, colour: tuple[int, int, int] = INK) -> None:
        """A line of text, from a fraction of the panel's width and height, of which 0 is the top."""
        self._draw.text((self._left + SCALE * SIDE * x, self._top + SCALE * SIDE * y), text, colour, self._font)

    def field(self, values: np.ndarray, ramp: np.ndarray) -> None:
        """An array of numbers from 0 to 1 as a picture, in colours between those of the ramp."""
        place = np.clip(values, 0.0, 1.0)[..., None] * (len(ramp) - 1)
        low = np.minimum(place.astype(int), len(ramp) - 2)
        colours = ramp[low[..., 0]] * (1.0 - (place - low)) + ramp[low[..., 0] + 1] * (place - low)
        self.picture(colours)

    def picture(self, colours: np.ndarray) -> None:
        """Fills the panel with an array of colours."""
        image = Image.fromarray(np.clip(colours, 0.0, 255.0).astype(np.uint8))
        self._image.paste(
            image.resize((SCALE * SIDE, SCALE * SIDE), Image.Resampling.BILINEAR), (self._left, self._top)
        )

    def losses(self, losses: Iterable[float]) -> None:
        """The next panel has the loss of each iteration, on a logarithmic scale."""
        powers = np.log10(np.maximum(np.array(list(losses)), 1e-30))
        low, high = np.floor(powers.min()), np.ceil(powers.max() + 1e-6)
        n = len(powers)
        self.begin("loss", (-0.12 * n, low, n - 1.0, high))
        for power in np.arange(low, high):
            if power > low:
                self.line(np.array([[0.0, power], [n - 1.0, power]]), (225, 225, 225), 1)
            self.words(0.015, (high - power) / (high - low) - 0.055, f"1e{power:.0f}", (140, 140, 140))
        self.line(np.column_stack([np.arange(n), powers]), BLUE)
        self.words(0.66, 0.02, f"{n - 1} iterations")

    def save(self, path: Path) -> None:
        self._image.save(path)
