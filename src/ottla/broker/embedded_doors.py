"""The HTTP servers of an embedded broker, as its keywords name them: the metrics and the console."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ottla.broker.console.broker_console import BrokerConsole
from ottla.broker.runtime import certificate_of
from ottla.config.broker import BrokerConfig
from ottla.doors.door import Door
from ottla.errors import ConfigError

# What the servers are called where their addresses are told.
METRICS: Final = "metrics"
CONSOLE: Final = "console"


@dataclass(frozen=True, slots=True)
class EmbeddedDoors:
    """The keywords of `ottla.Broker`; files are paths."""

    metrics: str | None = None
    metrics_certificate: str | None = None
    metrics_login: str | None = None
    console: str | None = None
    console_certificate: str | None = None
    console_login: str | None = None
    console_read_only: bool = False
    console_allowed_hosts: Sequence[str] = ()

    @property
    def are_any(self) -> bool:
        """Whether there is a server."""
        return self.metrics is not None or self.console is not None

    def metrics_door(self, config: BrokerConfig) -> Door | None:
        """Where the metrics are; ConfigError if that cannot be."""
        if self.metrics is None:
            if self.metrics_certificate is not None or self.metrics_login is not None:
                raise ConfigError(
                    'metrics_certificate and metrics_login have no effect without metrics="HOST:PORT"'
                )
            return None
        return Door.read(
            METRICS,
            self.metrics,
            certificate=self.metrics_certificate,
            certificate_otherwise=certificate_of(config),
            login=self.metrics_login,
        )

    def broker_console(self, config: BrokerConfig) -> BrokerConsole | None:
        """The console; ConfigError if it cannot be."""
        if self.console is None:
            if (
                self.console_certificate is not None
                or self.console_login is not None
                or self.console_read_only
                or self.console_allowed_hosts
            ):
                raise ConfigError(
                    "console_certificate, console_login, console_read_only and console_allowed_hosts have no effect "
                    'without console="HOST:PORT"'
                )
            return None
        door = Door.read(
            CONSOLE,
            self.console,
            certificate=self.console_certificate,
            certificate_otherwise=certificate_of(config),
        )
        return BrokerConsole(
            door,
            token_file=self.console_login,
            is_read_only=self.console_read_only,
            allowed_hosts=tuple(self.console_allowed_hosts),
        )


def path_of(file: str | os.PathLike[str] | None) -> str | None:
    """The path of a file, if there is one."""
    return None if file is None else os.fspath(file)
