"""This API as an OpenAPI document."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cache
from typing import Any

from ottla.console.http.routes import Call, Route
from ottla.console.openapi.document import openapi_document


def with_openapi(routes: Sequence[Route]) -> list[Route]:
    """The routes, and one more that describes them all."""

    @cache
    def document() -> dict[str, Any]:
        return openapi_document(every)

    async def openapi(call: Call[None, None]) -> dict[str, Any]:
        """The OpenAPI document of this API."""
        # It reads the source of the classes, for a moment.
        return await asyncio.to_thread(document)

    every = [*routes, Route("GET", "/api/openapi.json", openapi, "This API as OpenAPI 3.1")]
    return every
