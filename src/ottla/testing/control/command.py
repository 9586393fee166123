"""`ottla test-broker`: a broker and its control API until SIGTERM or Ctrl-C."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Sequence
from typing import Final

from ottla.cli.commands.syntax import Arguments
from ottla.cli.errors import CommandError
from ottla.cli.exit_codes import DONE
from ottla.cli.terminal import log_lines
from ottla.config.broker import BrokerConfig
from ottla.config.options import find_option
from ottla.errors import ConfigError
from ottla.model import Endpoint
from ottla.testing.broker import Broker, with_endless_retention
from ottla.testing.control.server import ControlServer, is_loopback

STDIN: Final = 0


def run(arguments: Arguments) -> int:
    """Runs until told to stop; 0 after a clean stop."""
    control = Endpoint.parse(arguments.control)
    if not arguments.allow_remote_control and not is_loopback(control.host):
        raise ConfigError(
            f"--control {control} may be reached from other machines, and asks for no password: "
            "write 127.0.0.1, or add --allow-remote-control"
        )
    broker = Broker(
        with_endless_retention(_options_of(arguments.options)),
        listen=arguments.listen,
        nodes=arguments.nodes,
        as_version=arguments.as_version,
        security=arguments.security,
    )
    log_lines.set_up_logging("text", arguments.log_level)
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    if arguments.stop_with_stdin:
        threading.Thread(target=_wait_for_end_of_stdin, args=(stopping,), daemon=True).start()
    with (
        broker,
        ControlServer(broker, control, allows_remote=arguments.allow_remote_control) as server,
    ):
        try:
            print(f"listening on {broker.bootstrap_servers}", flush=True)
            print(f"control on http://{server.endpoint}", flush=True)
        except BrokenPipeError as error:
            raise CommandError("nothing reads the addresses from stdout") from error
        stopping.wait()
    return DONE


def _options_of(texts: Sequence[str]) -> dict[str, object]:
    options: dict[str, object] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator:
            raise ConfigError(f"--set {text} has no value: write --set NAME=VALUE")
        options[find_option(BrokerConfig, name.strip()).name] = value.strip()
    return options


def _wait_for_end_of_stdin(stopping: threading.Event) -> None:
    # The descriptor itself: a buffer that is being read holds a lock, with which the interpreter cannot end.
    while os.read(STDIN, 4096):
        pass
    stopping.set()
