"""Records what Apache Kafka answers: `python -m tests.groups.kafka_answers.record [words of script names …]`.

Every script is played several times. One whose answers differ between the times is not recorded.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.kafka_jars import KAFKA_SERVER_VERSION
from tests import maven
from tests.groups.kafka_answers.brokers import OPTIONS, kafka_stage
from tests.groups.kafka_answers.repertoire import ALL, record
from tests.groups.kafka_answers.script import Script, play
from tests.groups.kafka_answers.stage import BrokerUnderTest

TIMES = 3
# Most of the time is spent waiting.
AT_ONCE = 8


def answers_of(broker: BrokerUnderTest, scripts: Sequence[Script]) -> list[list[str]]:
    """What a broker answers to each, several at a time."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(lambda script: _played(script, broker), scripts))


def _played(script: Script, broker: BrokerUnderTest) -> list[str]:
    try:
        return play(script, broker)
    except Exception as error:
        return [f"the script failed: {error!r}"]


def main(words: Sequence[str]) -> int:
    chosen = [
        script
        for script in ALL.values()
        if not words or any(word in f"{script.subject}.{script.name}" for word in words)
    ]
    found: dict[str, list[str]] = {}
    is_stable = True
    for options in OPTIONS:
        scripts = [script for script in chosen if script.broker == options]
        if not scripts:
            continue
        with tempfile.TemporaryDirectory() as folder:
            jars = maven.kafka_server(Path(folder))
            with kafka_stage(options, jars, Path(folder)) as broker:
                times = [answers_of(broker, scripts) for _ in range(TIMES)]
        for script, *answers in zip(scripts, *times, strict=True):
            if all(one == answers[0] for one in answers) and "failed" not in answers[0][-1]:
                found[script.name] = answers[0]
            else:
                is_stable = False
                print(f"{script.name} is not recorded:", *answers, sep="\n  ", file=sys.stderr)
    record(found)
    print(
        f"recorded {len(found)} of {len(chosen)} scripts from Apache Kafka {KAFKA_SERVER_VERSION}"
    )
    return 0 if is_stable else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
