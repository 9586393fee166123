"""`ottla console`."""

from __future__ import annotations

import asyncio
import signal

from ottla.cli.commands.syntax import Arguments
from ottla.cli.connection import options_for
from ottla.cli.exit_codes import DONE
from ottla.cli.terminal import log_lines
from ottla.config.admin import AdminConfig
from ottla.console.running import RunningConsole
from ottla.console.settings import ConsoleSettings
from ottla.doors.door import Door
from ottla.event_loop import new_event_loop


def run(arguments: Arguments) -> int:
    """Serve until a signal."""
    settings = ConsoleSettings(
        options=options_for(AdminConfig, arguments),
        door=Door.read("--listen", arguments.listen),
        is_read_only=arguments.read_only,
        registry_url=arguments.registry,
        internals_url=arguments.internals,
    )
    log_lines.set_up_logging("text", "debug" if arguments.verbose else "info")
    loop = new_event_loop()
    try:
        loop.run_until_complete(_serve(settings))
    finally:
        loop.close()
    return DONE


async def _serve(settings: ConsoleSettings) -> None:
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    console = RunningConsole(settings)
    await console.start()
    print(f"console at {console.url}", flush=True)
    await stopping.wait()
    await console.stop()
