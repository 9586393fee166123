"""Pictures with a palette: a screenshot of a page has few colours, and takes a third of the bytes that way."""

from __future__ import annotations

import base64
import struct
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SIGNATURE = b"\x89PNG\r\n\x1a\n"

# The browser decodes the picture and finds the colours that occur most; the others become the nearest of them.
_INDEXED = """async (source) => {
  const bitmap = await createImageBitmap(await (await fetch(source)).blob());
  const canvas = new OffscreenCanvas(bitmap.width, bitmap.height).getContext('2d');
  canvas.drawImage(bitmap, 0, 0);
  const pixels = new Uint32Array(canvas.getImageData(0, 0, bitmap.width, bitmap.height).data.buffer);
  const counts = new Map();
  for (const pixel of pixels) counts.set(pixel, (counts.get(pixel) ?? 0) + 1);
  const palette = [...counts].sort((one, other) => other[1] - one[1]).slice(0, 256).map(([pixel]) => pixel);
  const parts = (pixel) => [pixel & 255, (pixel >> 8) & 255, (pixel >> 16) & 255];
  const colours = palette.map(parts);
  const index = new Map(palette.map((pixel, at) => [pixel, at]));
  for (const pixel of counts.keys()) {
    if (index.has(pixel)) continue;
    const [red, green, blue] = parts(pixel);
    const distances = colours.map(([r, g, b]) => 2 * (r - red) ** 2 + 4 * (g - green) ** 2 + 3 * (b - blue) ** 2);
    index.set(pixel, distances.indexOf(Math.min(...distances)));
  }
  let text = '';
  for (const pixel of pixels) text += String.fromCharCode(index.get(pixel));
  return [bitmap.width, bitmap.height, colours.flat(), btoa(text)];
}"""


def with_palette(browser: Browser, png: bytes) -> bytes:
    """The same picture with at most 256 colours."""
    page = browser.new_page()
    try:
        source = "data:image/png;base64," + base64.b64encode(png).decode()
        width, height, colours, text = page.evaluate(_INDEXED, source)
    finally:
        page.close()
    pixels = base64.b64decode(text)
    # Each line begins with the number of its filter; with a palette, none is best.
    lines = b"".join(b"\0" + pixels[n * width : (n + 1) * width] for n in range(height))
    return b"".join(
        [
            SIGNATURE,
            _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
            _chunk(b"PLTE", bytes(colours)),
            _chunk(b"IDAT", zlib.compress(lines, 9)),
            _chunk(b"IEND", b""),
        ]
    )


def size_of(path: Path) -> tuple[int, int]:
    """Width and height of a PNG."""
    data = path.read_bytes()
    assert data.startswith(SIGNATURE), path
    width, height = struct.unpack(">II", data[16:24])
    return int(width), int(height)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
