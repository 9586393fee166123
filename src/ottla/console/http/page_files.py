"""The files of the page: each is read once, and sent with a tag by which browsers keep it."""

from __future__ import annotations

import hashlib
import mimetypes
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

FOLDER: Final = Path(__file__).parents[1] / "page"
INDEX: Final = "index.html"
_TYPES: Final[Mapping[str, str]] = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".svg": "image/svg+xml",
}


class _File(NamedTuple):
    data: bytes
    media_type: str
    tag: str


class PageFiles:
    """The files by their paths, and the page itself for the path of every view."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._files = {
            path.relative_to(folder).as_posix(): _read(path)
            for path in sorted(folder.rglob("*"))
            if path.is_file() and path.suffix not in (".md", ".py", ".pyc")
        }

    async def answer(self, request: Request) -> Response:
        """A file; for every other path that a browser opens the page, whose own code tells views apart."""
        path = request.url.path.lstrip("/")
        found = self._files.get(path)
        # What checks whether a console is there asks for / and accepts anything.
        if not path or (found is None and "text/html" in request.headers.get("accept", "")):
            found = self._files.get(INDEX)
        if found is None:
            return Response("not found\n", HTTPStatus.NOT_FOUND, media_type="text/plain")
        headers = {"etag": found.tag, "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == found.tag:
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
        return Response(found.data, media_type=found.media_type, headers=headers)


def _read(path: Path) -> _File:
    data = path.read_bytes()
    media_type = _TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "text/plain"
    return _File(data, media_type, f'"{hashlib.sha256(data).hexdigest()[:32]}"')
