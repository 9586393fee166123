"""A worker's process, which a supervisor starts, and which ends with it.

All it has is the file descriptor of its channel, through which it is told everything else.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import sys

from ottla.broker.loop.garbage import NEW_OBJECTS
from ottla.broker.workers.worker import end_with_parent, start_worker
from ottla.broker.workers.worker_channel import WorkerChannel
from ottla.cli.errors import line_of
from ottla.cli.exit_codes import DONE, FAILED
from ottla.cli.terminal import log_lines
from ottla.errors import OttlaError
from ottla.event_loop import new_event_loop
from ottla.events import EventLog

logger = EventLog("ottla.worker")


def main() -> int:
    """Be a worker in an interpreter of its own."""
    return work(int(sys.argv[1]))


def work(descriptor: int) -> int:
    """Serve until the supervisor says otherwise, or has ended; returns the exit code."""
    end_with_parent()
    gc.set_threshold(NEW_OBJECTS)
    loop = new_event_loop()
    try:
        return loop.run_until_complete(_serve(socket.socket(fileno=descriptor)))
    finally:
        loop.close()


async def _serve(connection: socket.socket) -> int:
    connection.set_inheritable(False)
    channel = WorkerChannel(connection, _end_now)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, channel.stop)
    started, descriptors = await channel.started
    node_id = int(started.options["node.id"])
    log_lines.end_logging()  # the supervisor's, where this is a fork of it
    log_lines.set_up_logging(started.log_format, started.log_level, node_id=node_id)
    try:
        broker = await start_worker(channel, started, descriptors, await channel.catalog)
    except (OttlaError, OSError) as error:
        channel.failed(error)
        return FAILED
    channel.ready()
    await channel.stopping
    try:
        await broker.stop()
    except (OttlaError, OSError) as error:
        logger.error("stop_failed", "not stopped cleanly: %(reason)s", reason=line_of(error))
        return FAILED
    return DONE


def _end_now(_: str | None) -> None:
    """The supervisor has gone: nothing more can be agreed on, and the next one waits for the locks."""
    os._exit(FAILED)


if __name__ == "__main__":
    sys.exit(main())
