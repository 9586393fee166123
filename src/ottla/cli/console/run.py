"""`ottla console`."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ottla.cli.commands.syntax import Arguments
from ottla.cli.connection import options_for
from ottla.cli.exit_codes import DONE
from ottla.cli.terminal import log_lines
from ottla.config import properties
from ottla.config.admin import AdminConfig
from ottla.console.running import RunningConsole
from ottla.console.settings import ConsoleSettings
from ottla.doors.door import Door
from ottla.errors import ConfigError
from ottla.event_loop import new_event_loop

_SASL: Final = ("SASL_SSL", "SASL_PLAINTEXT")


def run(arguments: Arguments) -> int:
    """Serve until a signal."""
    settings = settings_of(arguments)
    settings.validate()
    # Its own log takes the place of that of a command, which is for errors only.
    logging.getLogger().handlers.clear()
    log_lines.set_up_logging("text", "debug" if arguments.verbose else "info")
    loop = new_event_loop()
    try:
        loop.run_until_complete(_serve(settings))
    finally:
        loop.close()
    return DONE


def settings_of(arguments: Arguments) -> ConsoleSettings:
    """The settings of the command line and of the files that it names."""
    options = options_for(AdminConfig, arguments)
    AdminConfig.read(options)  # what is wrong with them is told now
    asks_for_passwords = str(options.get("security.protocol", "")).upper() in _SASL
    return ConsoleSettings(
        options=options,
        door=Door.read("--listen", arguments.listen, certificate=arguments.certificate),
        is_read_only=arguments.read_only,
        registry_url=arguments.registry,
        registry_options=_options_beside(
            "--registry", arguments.registry, arguments.registry_config
        ),
        internals_url=arguments.internals,
        internals_options=_options_beside(
            "--internals", arguments.internals, arguments.internals_config
        ),
        login_options=options if asks_for_passwords and not arguments.is_open else None,
        token_file=arguments.login,
        is_open=arguments.is_open,
        allowed_hosts=tuple(arguments.allowed_hosts),
        trusts_proxy=arguments.behind_proxy,
    )


def _options_beside(flag: str, url: str | None, file: str | None) -> Mapping[str, object]:
    """The options in the file of a server that the console asks too."""
    if file is None:
        return {}
    if url is None:
        raise ConfigError(f"{flag}-config has no effect without {flag} URL")
    return dict(properties.load(Path(file)))


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
