"""The console of a broker: the process that `ottla serve --console` starts, and that ends with it (ADR 0058).

It is told its settings by stdin, says on stdout how it is, and reaches the broker through a channel that it inherits.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import threading
from collections.abc import Mapping
from typing import Final

from ottla.broker.console.child_settings import ChildSettings
from ottla.broker.console.console_process import (
    ALIVE,
    ALIVE_SECONDS,
    FAILED,
    READY,
    REFUSED,
    message,
)
from ottla.cli.terminal import log_lines
from ottla.config.tls import TlsConfig
from ottla.console.running import RunningConsole
from ottla.console.settings import ConsoleSettings
from ottla.doors.door import Door
from ottla.errors import ConfigError, OttlaError
from ottla.event_loop import new_event_loop
from ottla.in_process.parent_channel import ParentChannel
from ottla.in_process.servers import use_parent
from ottla.model import Endpoint

_USERS_PROTOCOL: Final = "SASL_PLAINTEXT"


def main() -> int:
    """Serve until the broker ends; returns the exit code."""
    settings = ChildSettings.decode(sys.stdin.buffer.read())
    # What else is printed is part of the log.
    out = os.dup(1)
    os.dup2(2, 1)
    log_lines.set_up_logging(settings.log_format, settings.log_level)
    channel = ParentChannel(settings.channel)
    use_parent(channel)
    threading.Thread(target=_end_with_broker, args=(channel,), daemon=True).start()
    loop = new_event_loop()
    try:
        loop.run_until_complete(_serve(settings, out))
    except (OttlaError, OSError) as error:
        kind = REFUSED if isinstance(error, ConfigError) else FAILED
        os.write(out, message(kind, str(error)))
        return 1
    finally:
        loop.close()
    return 0


def _end_with_broker(channel: ParentChannel) -> None:
    """Ends the process when the broker has gone or has closed the channel, even if the loop is busy."""
    channel.read_answers()
    os._exit(0)


async def _serve(settings: ChildSettings, out: int) -> None:
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    console = RunningConsole(settings_of(settings), socket.socket(fileno=settings.listening))
    await console.start()
    os.write(out, message(READY))
    broker = os.getppid()
    while not stopping.is_set():
        os.write(out, message(ALIVE))
        # A process that the broker forked may have its end of the channel, too.
        if os.getppid() != broker:
            break
        try:
            await asyncio.wait_for(stopping.wait(), ALIVE_SECONDS)
        except TimeoutError:
            continue
    await console.stop()


def settings_of(settings: ChildSettings) -> ConsoleSettings:
    """The settings of the console that the broker serves."""
    certificate = None if settings.certificate is None else TlsConfig.read(settings.certificate)
    registry = settings.registry
    return ConsoleSettings(
        options={"bootstrap.servers": settings.brokers},
        door=Door(settings.what, Endpoint(settings.host, settings.port), certificate),
        is_read_only=settings.is_read_only,
        registry_url=None if registry is None else registry.url,
        registry_options={} if registry is None else registry.options,
        internals_url=f"http://{settings.internals}",
        login_options=_login_options(settings),
        token_file=settings.token_file,
        is_open=settings.is_open,
        allowed_hosts=settings.allowed_hosts,
        trusts_proxy=settings.trusts_proxy,
        broker_addresses={
            int(node): Endpoint.parse(address) for node, address in settings.addresses.items()
        },
    )


def _login_options(settings: ChildSettings) -> Mapping[str, object] | None:
    if settings.brokers_of_users is None or settings.is_open:
        return None
    return {
        "bootstrap.servers": settings.brokers_of_users,
        "security.protocol": _USERS_PROTOCOL,
        "sasl.mechanism": settings.mechanisms[0],
    }


if __name__ == "__main__":
    sys.exit(main())
