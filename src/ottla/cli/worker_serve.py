"""`ottla serve --workers`: runs a supervisor and its workers until SIGTERM or Ctrl-C."""

from __future__ import annotations

import asyncio
import shutil
import signal
import tempfile
import time
from contextlib import ExitStack
from functools import partial
from typing import Any

from ottla.broker.network.listen_error import ListenError
from ottla.broker.runtime import BrokerSettings
from ottla.broker.workers.child_processes import ChildProcesses, run_forking
from ottla.broker.workers.supervisor import Supervisor, SupervisorSettings
from ottla.cli import worker
from ottla.cli.commands.syntax import Arguments
from ottla.cli.errors import CommandError
from ottla.cli.exit_codes import DONE
from ottla.cli.serve import (
    LISTEN_ADVICE,
    log_level_of,
    note_signal,
    warn_of_open_doors,
    warn_of_open_listener,
)
from ottla.cli.worker_neighbours import WorkerNeighbours
from ottla.doors.door import Door
from ottla.events import EventLog
from ottla.ports.errors import InUseError
from ottla.version import VERSION

logger = EventLog("ottla.serve")


def serve_with_workers(
    settings: BrokerSettings, registry: Door | None, arguments: Arguments
) -> int:
    """Run until a signal; returns 0 after a clean stop."""
    with ExitStack() as temporary:
        data_dir = settings.data_dir
        if data_dir is None:
            data_dir = tempfile.mkdtemp(prefix="ottla-")
            temporary.callback(partial(shutil.rmtree, data_dir, ignore_errors=True))
            logger.info(
                "data_is_temporary",
                "workers share data by files: it is in %(folder)s, which is removed at the end",
                folder=data_dir,
            )
        supervised = SupervisorSettings(
            config=settings.config,
            data_dir=data_dir,
            worker_count=arguments.workers,
            users=settings.users,
            log_format=arguments.log_format,
            log_level=log_level_of(arguments),
            tells_pages=settings.is_watched,
            has_metrics_page=settings.metrics is not None,
        )
        return run_forking(partial(_serve, supervised, settings, registry), worker.work)


async def _serve(
    settings: SupervisorSettings,
    beside: BrokerSettings,
    registry: Door | None,
    children: ChildProcesses,
) -> int:
    loop = asyncio.get_running_loop()
    stopping: asyncio.Future[str] = loop.create_future()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, note_signal, stopping, number.name)
    neighbours = WorkerNeighbours(beside, registry, settings.worker_count)
    supervisor = Supervisor(settings, children, inner_addresses=neighbours.servers.addresses)
    try:
        await neighbours.begin(supervisor)
        await _start(supervisor, settings)
        _log_listeners(supervisor, settings)
        if settings.log_format != "json":
            for name in supervisor.open_listeners:
                warn_of_open_listener(name, supervisor.common_endpoints[name], settings.config)
        print(f"listening on {supervisor.endpoint}", flush=True)
        serving = loop.create_task(neighbours.serve())
        try:
            both: list[asyncio.Future[Any]] = [serving, stopping]
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                serving.result()
                if settings.log_format != "json":
                    doors = neighbours.metrics_door, neighbours.registry_door, beside.console
                    warn_of_open_doors(*doors)
            reason = await stopping
        except BaseException:
            await neighbours.end()
            await supervisor.stop()
            raise
        logger.info("broker_stopping", "stopping, because of %(signal)s", signal=reason)
        began = time.monotonic()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        await neighbours.end()
        await supervisor.stop()
    finally:
        await neighbours.close()
    seconds = round(time.monotonic() - began, 3)
    logger.info("broker_stopped", "stopped cleanly in %(seconds).3f s", seconds=seconds)
    return DONE


async def _start(supervisor: Supervisor, settings: SupervisorSettings) -> None:
    began = time.monotonic()
    try:
        await supervisor.start()
    except ListenError as error:
        advice = LISTEN_ADVICE.get(error.errno or 0, "")
        raise CommandError(str(error), advice.format(flag="--listen")) from error
    except InUseError as error:
        raise CommandError(str(error), "stop it, or give another folder with --data DIR") from error
    logger.info(
        "broker_started",
        "Ottla %(version)s serves with %(workers)d workers from node %(node)d on, of cluster %(cluster)s, data in "
        "%(data)s, %(topics)d topic(s), ready in %(seconds).3f s",
        version=VERSION,
        node=settings.config.node_id,
        workers=settings.worker_count,
        cluster=supervisor.cluster_id,
        listen=str(supervisor.endpoint),
        data=settings.data_dir,
        topics=supervisor.topic_count,
        partitions=supervisor.partition_count,
        seconds=round(time.monotonic() - began, 3),
    )


def _log_listeners(supervisor: Supervisor, settings: SupervisorSettings) -> None:
    """Logs the listeners behind the first, which stdout names, and where each worker listens."""
    first, *others = settings.config.all_listeners
    for listener in others:
        logger.info(
            "listener_started",
            "listener %(listener)s (%(protocol)s) on %(address)s",
            listener=listener.name,
            protocol=listener.protocol,
            address=str(supervisor.common_endpoints[listener.name]),
        )
    for listener in (first, *others):
        logger.info(
            "workers_listen",
            "clients of listener %(listener)s are sent from %(address)s to its workers, so they have to reach: "
            "%(addresses)s",
            listener=listener.name,
            address=str(listener.advertised or supervisor.common_endpoints[listener.name]),
            addresses=", ".join(map(str, supervisor.addresses_for_clients(listener))),
        )
