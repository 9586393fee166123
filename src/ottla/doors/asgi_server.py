"""An ASGI application behind a door: uvicorn with the door's certificate, and deadlines for requests and answers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from ottla.doors.door import Door

if TYPE_CHECKING:
    import uvicorn

# A connection that has sent no whole head in this time is closed, so that idle ones take no places from others.
HEAD_SECONDS: Final = 10.0
# A client that takes so little of its answer in this time that nothing more can be sent is cut off. It would keep its
# connection, and what makes the answer, for as long as it likes.
STALLED_SECONDS: Final = 60.0


def server_config(
    app: Any, door: Door, *, max_connections: int, stop_seconds: int, loop: str = "auto"
) -> uvicorn.Config:
    """The configuration of a server; its socket is given to it."""
    import uvicorn

    config = uvicorn.Config(
        app,
        http=_with_deadline(),
        ws="none",
        loop=loop,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=max_connections,
        timeout_graceful_shutdown=stop_seconds,
    )
    config.load()
    config.ssl = door.context()
    return config


def _with_deadline() -> Any:
    from uvicorn.protocols.http.auto import AutoHTTPProtocol

    protocol: Any = AutoHTTPProtocol

    class ProtocolWithDeadline(protocol):  # type: ignore[misc]
        """Closes its connection where a request does not begin, or an answer does not go on."""

        _stalled: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            self._expect_request()

        def connection_lost(self, exc: Exception | None) -> None:
            self._deadline.cancel()
            self._go_on()
            super().connection_lost(exc)

        def pause_writing(self) -> None:
            super().pause_writing()
            loop = asyncio.get_running_loop()
            self._stalled = loop.call_later(STALLED_SECONDS, self.transport.abort)

        def resume_writing(self) -> None:
            super().resume_writing()
            self._go_on()

        def _go_on(self) -> None:
            if self._stalled is not None:
                self._stalled.cancel()
                self._stalled = None

        def _expect_request(self) -> None:
            self._last_request = self.cycle
            self._deadline = asyncio.get_running_loop().call_later(HEAD_SECONDS, self._check)

        def _check(self) -> None:
            is_idle = self.cycle is None or self.cycle.response_complete
            if is_idle and self.cycle is self._last_request:
                self.transport.close()
            else:
                self._expect_request()

    return ProtocolWithDeadline
