"""The example that comes from Spring Boot works through real HTTP: properties, controller with a template, listener."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

from tests.waiting import in_time

import ottla

FOLDER = Path(__file__).parents[2] / "examples" / "app_spring_style"
RUN_SECONDS = 30


def test_a_message_from_the_controller_reaches_the_listener() -> None:
    deadline = time.monotonic() + RUN_SECONDS
    lines: list[str] = []
    with ottla.Broker() as broker:
        process = subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "uvicorn", "main:web", "--port", "0"],
            cwd=FOLDER,
            env={**os.environ, "KAFKA_SERVERS": broker.bootstrap_servers},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        output = process.stdout
        assert output is not None
        reader = threading.Thread(target=lambda: lines.extend(output), daemon=True)
        reader.start()
        try:
            while not (found := re.search(r"http://127\.0\.0\.1:\d+", "".join(lines))):
                assert process.poll() is None, lines
                in_time(deadline, lines[-20:])
                time.sleep(0.02)
            # auto-offset-reset=latest: what is sent before the group has its partition is not read.
            number = 0
            while not any(line.startswith("received: topic1-0-hello") for line in lines):
                in_time(deadline, lines[-20:])
                number += 1
                with urllib.request.urlopen(f"{found[0]}/kafka/normal/hello{number}") as answer:
                    assert answer.status == 200
                time.sleep(0.05)
        finally:
            process.terminate()
            code = process.wait(RUN_SECONDS)
            reader.join(RUN_SECONDS)
            output.close()
        with ottla.Consumer(
            bootstrap_servers=broker.bootstrap_servers,
            group_id="defaultConsumerGroup",
            enable_auto_commit=False,
        ) as consumer:
            committed = consumer.committed([("topic1", 0)])[ottla.TopicPartition("topic1", 0)]
            # Everything that the listener has done is committed at the end.
            assert committed is not None
            assert committed.offset == consumer.end_offsets([("topic1", 0)])["topic1", 0]  # type: ignore[index]
    assert code in (0, -15), lines
    assert not any("Traceback" in line for line in lines), lines
