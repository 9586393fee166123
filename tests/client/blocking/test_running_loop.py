"""The blocking client inside of somebody else's event loop, as in a notebook."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import ottla
import ottla.aio
from ottla import Broker
from ottla.client.send.delivery import RecordFuture
from ottla.errors import IllegalStateError

README = Path(__file__).parents[3] / "README.md"
# A cell of a notebook runs like this: in a coroutine, on a loop that runs.
IN_A_NOTEBOOK = "import asyncio\n\nasync def cell():\n{}\nasyncio.run(cell())\n"
SECONDS = 60


def test_the_first_program_of_the_readme_runs_in_a_notebook() -> None:
    found = re.search(
        r"^```python\n(.*?)^```$", README.read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    assert found is not None
    cell = "".join(f"    {line}\n" for line in found[1].splitlines())
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", IN_A_NOTEBOOK.format(cell)],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "0\nb'table 4' b'one espresso'\n"


def test_many_results_are_waited_for_on_a_running_loop(
    ottla_broker: Broker, ottla_topic: str
) -> None:
    async def cell() -> list[int]:
        with ottla.Producer(bootstrap_servers=ottla_broker.bootstrap_servers) as producer:
            sent = producer.send_many(ottla_topic, [b"1", b"2"])
            return [metadata.offset for metadata in sent.result(10)]

    assert asyncio.run(cell()) == [0, 1]


def test_a_callback_cannot_wait_for_its_own_producer(
    ottla_broker: Broker, ottla_topic: str
) -> None:
    refused: list[Exception] = []
    done = threading.Event()
    with ottla.Producer(bootstrap_servers=ottla_broker.bootstrap_servers) as producer:

        def on_delivery(*_: object) -> None:
            try:
                producer.send(ottla_topic, b"second").result(10)
            except Exception as error:
                refused.append(error)
            done.set()

        producer.send(ottla_topic, b"first", on_delivery=on_delivery)
        assert done.wait(SECONDS)
    (error,) = refused
    assert isinstance(error, IllegalStateError)
    assert "would block the event loop that brings the result" in str(error)


def test_a_result_on_the_loop_of_its_own_producer_is_refused(
    ottla_broker: Broker, ottla_topic: str
) -> None:
    async def run() -> RecordFuture:
        async with ottla.aio.Producer(bootstrap_servers=ottla_broker.bootstrap_servers) as producer:
            future = await producer.send(ottla_topic, b"value")
            with pytest.raises(IllegalStateError, match="await the future"):
                future.result(10)
            return future

    assert asyncio.run(run()).result().offset == 0
