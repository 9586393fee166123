"""`ottla serve`: runs a broker until SIGTERM or Ctrl-C."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.broker.console.broker_console import BrokerConsole
from ottla.broker.loop.garbage import NEW_OBJECTS
from ottla.broker.network.listen_error import ListenError
from ottla.broker.runtime import BrokerSettings, RunningBroker, certificate_of, start_broker
from ottla.cli.commands.serve import DEFAULT_DATA, DEFAULT_LISTEN
from ottla.cli.commands.syntax import Arguments
from ottla.cli.errors import CommandError
from ottla.cli.terminal import log_lines
from ottla.config.broker import BrokerConfig
from ottla.config.listeners import advertised_text, listener_text, parse_address
from ottla.config.options import find_option
from ottla.config.server_file import ServerFile
from ottla.doors.door import Door
from ottla.errors import ConfigError
from ottla.event_loop import new_event_loop
from ottla.events import EventLog
from ottla.model import Endpoint
from ottla.ports.errors import InUseError
from ottla.storage.shared.storage_urls import (
    StorageUrls,
    read_urls,
    variables_of_shown_secrets,
)
from ottla.version import VERSION

if TYPE_CHECKING:
    from ottla.broker.console.child_settings import RegistryAccess
    from ottla.schemas.registry.embedded import SchemaRegistry

logger = EventLog("ottla.serve")

_OPEN_WARNING: Final = """\
****************************************************************************************
*  WARNING: anybody who reaches {address} can {everything}.
*  Listener {name} asks clients for no password and no certificate.
*  - If only programs of this machine are clients:  --listen 127.0.0.1:{port}
*  - With passwords:     --listen SASL_SSL://{address}, and --user NAME:@FILE
*  - With certificates:  --listen SSL://{address}, and --set ssl.client.auth=required
*  Both need a certificate of this broker (ssl.keystore.location): see the guide "Security".
****************************************************************************************"""
_OPEN_DOOR_WARNING: Final = """\
****************************************************************************************
*  WARNING: anybody who reaches {url} can {everything}.
*  {flag} asks for no password.
*  - If only programs of this machine are clients:  {flag} 127.0.0.1:{port}
*  - With passwords:  {flag} https://{address}, and {flag}-login FILE
*  See the guide "Security".
****************************************************************************************"""
_CONSOLE_FLAGS: Final = {
    "--console-login": "console_login",
    "--console-open": "console_open",
    "--console-read-only": "console_read_only",
    "--console-allowed-host": "console_allowed_hosts",
    "--console-behind-proxy": "console_behind_proxy",
}
FILE_SIGN: Final = "@"

LISTEN_ADVICE: Final = {
    errno.EADDRINUSE: "is a broker running there already? {flag} HOST:PORT chooses another port, 0 a free one",
    errno.EACCES: "ports below 1024 need privileges, {flag} HOST:PORT chooses another one",
    errno.EADDRNOTAVAIL: "the address must belong to this machine; 0.0.0.0 stands for all of its addresses",
}


def serve(arguments: Arguments) -> int:
    """Run until a signal; returns 0 after a clean stop."""
    file = None if arguments.config is None else ServerFile(Path(arguments.config))
    settings = settings_of(arguments, file)
    if arguments.workers > 1:
        _check_workers(arguments, settings)
    registry = _registry_door(arguments, settings.config)
    console = None if settings.console is None else settings.console.door
    if arguments.certificate is not None and not any(
        door is not None and door.certificate for door in (settings.metrics, registry, console)
    ):
        raise ConfigError(
            "--certificate has no effect without --metrics https://…, --registry https://… or --console https://…"
        )
    log_lines.set_up_logging(arguments.log_format, log_level_of(arguments))
    if file is not None and file.without_effect:
        logger.warning(
            "options_without_effect",
            "%(file)s: these options have no effect here: %(options)s",
            file=arguments.config,
            options=", ".join(file.without_effect),
        )
    _warn_of_shown_passwords(arguments.users)
    if settings.storage is not None:
        _warn_of_shown_urls(arguments.storage, arguments.objects)
    if arguments.workers > 1:
        from ottla.cli.worker_serve import serve_with_workers

        return serve_with_workers(settings, registry, arguments)
    gc.set_threshold(NEW_OBJECTS)
    loop = new_event_loop()
    try:
        loop.run_until_complete(
            _serve(settings, registry, logs_json=arguments.log_format == "json")
        )
    finally:
        loop.close()
    return 0


def _check_workers(arguments: Arguments, settings: BrokerSettings) -> None:
    """Refuses what several workers do not have."""
    if settings.storage is not None:
        raise ConfigError(
            "--workers has no effect with --storage: start `ottla serve` once for each processor"
        )
    if settings.data_dir is None and "ottla.ephemeral.max.bytes" in settings.config.given:
        raise ConfigError(
            "ottla.ephemeral.max.bytes has no effect with --workers: --ephemeral keeps their data in a temporary folder"
        )


def settings_of(arguments: Arguments, file: ServerFile | None = None) -> BrokerSettings:
    """The settings of the command line and of the file; the command line takes precedence."""
    options: dict[str, object] = dict(file.options) if file is not None else {}
    for text in arguments.options:
        name, separator, value = text.partition("=")
        if not separator:
            raise ConfigError(f"--set {text} has no value: write --set NAME=VALUE")
        for flag, replaced in (("--listen", "listeners"), ("--advertise", "advertised.listeners")):
            if name.strip() == replaced and getattr(arguments, flag.removeprefix("--")):
                raise ConfigError(f"{flag} and --set {replaced} are both given: give one")
        known = find_option(BrokerConfig, name.strip())
        for other in (known.name, *known.aliases):
            options.pop(other, None)
        options[known.name] = value.strip()
    _add_addresses(options, arguments)
    config = BrokerConfig.read(options)
    storage = _storage_of(arguments)
    return BrokerSettings(
        config=config,
        data_dir=None if storage is not None else _data_dir_of(arguments, file),
        storage=storage,
        metrics=_metrics_door(arguments, config),
        console=_console(arguments, config),
        has_own_process=True,
        users=passwords_of(arguments.users),
    )


def _metrics_door(arguments: Arguments, config: BrokerConfig) -> Door | None:
    return _door("--metrics", arguments.metrics, arguments.metrics_login, arguments, config)


def _registry_door(arguments: Arguments, config: BrokerConfig) -> Door | None:
    return _door("--registry", arguments.registry, arguments.registry_login, arguments, config)


def _console(arguments: Arguments, config: BrokerConfig) -> BrokerConsole | None:
    if arguments.console is None:
        given = [flag for flag, argument in _CONSOLE_FLAGS.items() if getattr(arguments, argument)]
        if given:
            raise ConfigError(f"{given[0]} has no effect without --console HOST:PORT")
        return None
    # Its login is not that of the other doors: tokens have roles.
    door = _door("--console", arguments.console, None, arguments, config)
    assert door is not None
    if arguments.console_login is not None:
        from ottla.console.access.tokens import read_tokens

        read_tokens(Path(arguments.console_login))  # what is wrong with them is told now
    console = BrokerConsole(
        door,
        token_file=arguments.console_login,
        is_read_only=arguments.console_read_only,
        is_open=arguments.console_open,
        allowed_hosts=tuple(arguments.console_allowed_hosts),
        trusts_proxy=arguments.console_behind_proxy,
        log_format=arguments.log_format,
        log_level=log_level_of(arguments),
    )
    console.validate(config)
    return console


def log_level_of(arguments: Arguments) -> str:
    return arguments.log_level or ("debug" if arguments.verbose else "info")


def _door(
    flag: str, address: str | None, login: str | None, arguments: Arguments, config: BrokerConfig
) -> Door | None:
    if address is None:
        if login is not None:
            raise ConfigError(f"{flag}-login has no effect without {flag} HOST:PORT")
        return None
    return Door.read(
        flag,
        address,
        certificate=arguments.certificate if Door.uses_tls(address) else None,
        certificate_otherwise=certificate_of(config),
        login=login,
    )


def _add_addresses(options: dict[str, object], arguments: Arguments) -> None:
    """Adds the options that --listen and --advertise stand for; they win over those of the file."""
    if arguments.listen:
        texts = list(map(listener_text, arguments.listen))
        # What comes later wins, as for other options.
        by_name = {parse_address("listeners", text).name: text for text in texts}
        options["listeners"] = ",".join(by_name.values())
        # The advertised addresses of the file belong to its listeners.
        options.pop("advertised.listeners", None)
    elif "listeners" not in options:
        options["listeners"] = listener_text(DEFAULT_LISTEN)
    if arguments.advertise:
        listeners = str(options["listeners"]).split(",")
        options["advertised.listeners"] = ",".join(
            advertised_text(text, listeners) for text in arguments.advertise
        )


def passwords_of(texts: Sequence[str]) -> dict[str, str]:
    """The passwords of --user, by name; NAME:@FILE is the first line of a file. Errors do not show passwords."""
    found: dict[str, str] = {}
    for text in texts:
        name, separator, password = text.partition(":")
        if not (name and separator and password):
            raise ConfigError(
                f"--user {name or '…'} has no password: write NAME:PASSWORD or NAME:@FILE"
                if name
                else "--user has no name: write NAME:PASSWORD or NAME:@FILE"
            )
        if name in found:
            raise ConfigError(f"--user {name} is given twice: give it once")
        if password.startswith(FILE_SIGN):
            password = _first_line(name, password.removeprefix(FILE_SIGN))
        found[name] = password
    return found


def _first_line(user: str, path: str) -> str:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--user {user}:@{path} cannot be read: {error.strerror}") from error
    except UnicodeError as error:
        raise ConfigError(f"--user {user}:@{path} cannot be read: it is not UTF-8") from error
    line = text.partition("\n")[0].removesuffix("\r")
    if not line:
        raise ConfigError(f"--user {user}:@{path}: the file begins with no password")
    return line


def _warn_of_shown_passwords(texts: Sequence[str]) -> None:
    """Others on the machine see the arguments of a process."""
    for text in texts:
        name, _, password = text.partition(":")
        if not password.startswith(FILE_SIGN):
            logger.warning(
                "password_on_command_line",
                "the password of user %(user)s is on the command line, where others on this machine can see it: "
                "write it into a file that only this user can read, and give --user %(user)s:@FILE",
                user=name,
            )


def _warn_of_shown_urls(storage: str | None, objects: str | None) -> None:
    for flag, variable in variables_of_shown_secrets(storage, objects).items():
        logger.warning(
            "storage_secret_on_command_line",
            "the URL of %(flag)s has a secret, and is on the command line, where others on this machine can see it: "
            "write it into a file that only this user can read, and give %(flag)s @FILE, or set %(variable)s",
            flag=flag,
            variable=variable,
        )


def _storage_of(arguments: Arguments) -> StorageUrls | None:
    """The shared storage, unless another place for data is given."""
    if arguments.ephemeral or arguments.data is not None:
        if arguments.objects:
            raise ConfigError("--objects has no effect without --storage postgresql://…")
        return None
    return read_urls(arguments.storage, arguments.objects)


def _data_dir_of(arguments: Arguments, file: ServerFile | None) -> str | None:
    if arguments.ephemeral:
        return None
    given: str | None = arguments.data
    found = given if given is not None or file is None else file.data_dir()
    return DEFAULT_DATA if found is None else found


async def _serve(settings: BrokerSettings, registry_door: Door | None, *, logs_json: bool) -> None:
    stopping: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, note_signal, stopping, number.name)
    broker = await _start(settings)
    try:
        key = None
        if registry_door is not None and settings.console is not None:
            from ottla.cli.console.registry_access import with_key

            registry_door, key = with_key(registry_door)
        registry = await _start_registry(broker, registry_door)
    except BaseException:
        await broker.stop()
        raise
    _log_listeners(broker)
    if not logs_json:
        _warn_of_open_listeners(broker)
        warn_of_open_doors(
            broker.metrics_door, None if registry is None else registry.door, settings.console
        )
    print(f"listening on {broker.endpoint}", flush=True)
    try:
        access = None if key is None or registry is None else key.access(registry)
        reason = await _wait_for_signal(broker, settings, access, stopping)
    except BaseException:
        await _stop_registry(registry)
        await broker.stop()
        raise
    logger.info("broker_stopping", "stopping, because of %(signal)s", signal=reason)
    began = time.monotonic()
    await _stop_registry(registry)
    await broker.stop()
    seconds = round(time.monotonic() - began, 3)
    logger.info("broker_stopped", "stopped cleanly in %(seconds).3f s", seconds=seconds)


async def _wait_for_signal(
    broker: RunningBroker,
    settings: BrokerSettings,
    registry: RegistryAccess | None,
    stopping: asyncio.Future[str],
) -> str:
    """Serves the console, if there is one, until the signal; returns its name."""
    if settings.console is not None:
        starting = asyncio.ensure_future(_start_console(broker, registry))
        await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            return await stopping
        print(f"console at {starting.result()}", flush=True)
    return await stopping


async def _start_console(broker: RunningBroker, registry: RegistryAccess | None) -> str:
    """The console's URL, when it can be opened."""
    try:
        await broker.start_console(registry)
    except ListenError as error:
        advice = LISTEN_ADVICE.get(error.errno or 0, "")
        raise CommandError(str(error), advice.format(flag="--console")) from error
    assert broker.console is not None
    return broker.console.door.url


async def _stop_registry(registry: SchemaRegistry | None) -> None:
    if registry is not None:
        await asyncio.to_thread(registry.stop)


def _log_listeners(broker: RunningBroker) -> None:
    """Logs the listeners behind the first, which stdout names."""
    for listener in broker.node.options.config.all_listeners[1:]:
        logger.info(
            "listener_started",
            "listener %(listener)s (%(protocol)s) on %(address)s",
            listener=listener.name,
            protocol=listener.protocol,
            address=str(broker.node.endpoints[listener.name]),
        )


def _warn_of_open_listeners(broker: RunningBroker) -> None:
    """Prints what cannot be missed between the lines of the log."""
    for listener in broker.server.open_listeners:
        warn_of_open_listener(listener.name, listener.endpoint, broker.node.options.config)


def warn_of_open_listener(name: str, endpoint: Endpoint, config: BrokerConfig) -> None:
    """Prints that a listener asks for no proof of who a client is."""
    print(
        _OPEN_WARNING.format(
            name=name,
            address=endpoint,
            port=endpoint.port,
            everything="be a client (User:ANONYMOUS for the ACLs)"
            if config.authorizer_class_name
            else "read, change and delete everything",
        ),
        file=sys.stderr,
        flush=True,
    )


def warn_of_open_doors(
    metrics: Door | None, registry: Door | None, console: BrokerConsole | None
) -> None:
    console_door = None if console is None or not console.is_open else console.door
    for door, everything in (
        (metrics, "read the metrics"),
        (registry, "read, change and delete schemas"),
        (console_door, "read, change and delete everything"),
    ):
        if door is not None and door.is_open:
            print(
                _OPEN_DOOR_WARNING.format(
                    flag=door.what,
                    url=door.url,
                    address=door.endpoint,
                    port=door.endpoint.port,
                    everything=everything,
                ),
                file=sys.stderr,
                flush=True,
            )


async def _start_registry(broker: RunningBroker, door: Door | None) -> SchemaRegistry | None:
    """A registry on a thread of its own, a client of the broker that needs none of its listeners."""
    if door is None:
        return None
    from ottla.schemas.registry.embedded import SchemaRegistry

    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    registry = SchemaRegistry(bootstrap_servers=broker.in_process_servers(), listen=door)
    try:
        # The broker's loop must go on meanwhile: the registry reads its topic there.
        await asyncio.to_thread(registry.start)
    except ConfigError as error:
        raise CommandError(str(error), "--registry HOST:PORT chooses another address") from error
    return registry


def note_signal(stopping: asyncio.Future[str], signal_name: str) -> None:
    if not stopping.done():
        stopping.set_result(signal_name)


async def _start_broker(settings: BrokerSettings) -> RunningBroker:
    if settings.storage is None:
        return await start_broker(settings)
    from ottla.broker.shared.shared_broker import start_on_storage

    return await start_on_storage(settings, settings.storage)


def _place_of_data(settings: BrokerSettings) -> str:
    if settings.storage is not None:
        from ottla.storage.shared.cluster_storage import described

        return described(settings.storage)
    return "memory" if settings.data_dir is None else settings.data_dir


async def _start(settings: BrokerSettings) -> RunningBroker:
    began = time.monotonic()
    try:
        broker = await _start_broker(settings)
    except ListenError as error:
        metrics, console = settings.metrics, settings.console
        flag = "--listen"
        if metrics is not None and error.endpoint == metrics.endpoint:
            flag = "--metrics"
        elif console is not None and error.endpoint == console.door.endpoint:
            flag = "--console"
        advice = LISTEN_ADVICE.get(error.errno or 0, "")
        raise CommandError(str(error), advice.format(flag=flag)) from error
    except InUseError as error:
        advice = "stop it, or give another folder with --data DIR"
        if settings.storage is not None:
            advice = "stop it, or give another --listen or --advertise, from which a broker has its id, or node.id"
        raise CommandError(str(error), advice) from error
    topics = broker.cluster.catalog.topics.values()
    logger.info(
        "broker_started",
        "Ottla %(version)s serves as node %(node)d of cluster %(cluster)s, data in %(data)s, "
        "%(topics)d topic(s), ready in %(seconds).3f s",
        version=VERSION,
        node=broker.node.node_id,
        workers=1,
        cluster=broker.cluster.cluster_id,
        listen=str(broker.endpoint),
        data=_place_of_data(settings),
        topics=len(topics),
        partitions=sum(topic.partition_count for topic in topics),
        seconds=round(time.monotonic() - began, 3),
    )
    if broker.metrics_door is not None:
        url = f"{broker.metrics_door.url}/metrics"
        logger.info("metrics_served", "metrics at %(url)s", url=url)
    return broker
