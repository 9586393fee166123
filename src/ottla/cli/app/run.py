"""`ottla app run`: the process of an app, or the supervisor of several."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

from ottla.app.life.health_server import HealthServer
from ottla.app.life.monitor import HealthRules
from ottla.app.life.process import AppProcess, ProcessSettings
from ottla.app.life.program import (
    ProgramError,
    files_of_error,
    load,
    place_of,
    source_files,
)
from ottla.app.life.supervisor import Supervisor, WorkerPlan
from ottla.app.life.worker_link import WorkerEnd
from ottla.cli.commands.syntax import Arguments
from ottla.cli.terminal import log_lines
from ottla.doors.door import Door
from ottla.durations import seconds_of
from ottla.errors import ConfigError

if TYPE_CHECKING:
    from ottla.app import App


def run(arguments: Arguments) -> int:
    """Run until a signal; returns 0 after a clean drain."""
    log_lines.set_up_logging(arguments.log_format, arguments.log_level)
    # The health server is ours: what users should know of it is in our own lines.
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    settings = ProcessSettings(
        health=_door(arguments),
        drain_seconds=seconds_of(arguments.drain_timeout),
    )
    rules = HealthRules(stall_seconds=seconds_of(arguments.stall_after))
    if arguments.workers > 1 or arguments.reload:
        return _supervise(arguments, settings)
    link = WorkerEnd.from_environment()
    if link is not None:
        link.start()
    app = _load(arguments.program, link)
    life = app.life()
    life.use(rules)
    return AppProcess(life, settings, link).run()


def _door(arguments: Arguments) -> Door | None:
    if arguments.health is not None:
        return Door.read(
            "--health", arguments.health, certificate=arguments.certificate, login=arguments.login
        )
    for flag, value in (("--certificate", arguments.certificate), ("--login", arguments.login)):
        if value is not None:
            raise ConfigError(f"{flag} has no effect without --health HOST:PORT")
    return None


def load_app(program: str) -> App:
    """The app of a program; a traceback of the program is printed before its error is raised."""
    from ottla.app import App

    try:
        return load(program, App, "App")
    except ProgramError as error:
        print(error.user_traceback, end="", file=sys.stderr)
        raise


def _load(program: str, link: WorkerEnd | None) -> App:
    try:
        app = load_app(program)
    except ProgramError as error:
        if link is not None:
            link.tell_files(source_files() | place_of(program) | files_of_error(error))
        raise
    if link is not None:
        link.tell_files(source_files())
    return app


def _supervise(arguments: Arguments, settings: ProcessSettings) -> int:
    supervisor = Supervisor(
        WorkerPlan(
            command=_worker_command(arguments),
            workers=arguments.workers,
            drain_seconds=settings.drain_seconds,
            watches_sources=arguments.reload,
            first_files=frozenset(place_of(arguments.program)),
        )
    )
    if settings.health is None:
        return supervisor.run()
    server = HealthServer(settings.health, supervisor)
    server.start()
    logging.getLogger("ottla.app").info("health at %s/healthz", server.door.url)
    try:
        return supervisor.run()
    finally:
        server.stop()


def _worker_command(arguments: Arguments) -> list[str]:
    options = {
        "--drain-timeout": arguments.drain_timeout,
        "--stall-after": arguments.stall_after,
        "--log-format": arguments.log_format,
        "--log-level": arguments.log_level,
    }
    words = [word for option in options.items() for word in option]
    return [sys.executable, "-m", "ottla", "app", "run", arguments.program, *words]
