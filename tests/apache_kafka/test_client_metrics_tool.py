"""kafka-client-metrics says of us what it says of Apache Kafka."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.apache_kafka.tool_runs import ToolRun, run_tools

import ottla

TOOL = "org.apache.kafka.tools.ClientMetricsCommand"
CONFIGS = "kafka.admin.ConfigCommand"
NAME = ("--name", "tool-subscription")
SCRIPT: tuple[tuple[str, ...], ...] = (
    ("--list",),
    ("--describe", *NAME),
    ("--alter", *NAME, "--metrics", "org.apache.kafka.producer.,b.", "--interval", "5000"),
    ("--alter", *NAME, "--match", "client_id=till-[0-9]+,client_software_name=java.*"),
    ("--list",),
    ("--describe", *NAME),
    ("--alter", *NAME, "--interval", ""),
    ("--describe",),
    ("--alter", *NAME, "--interval", "99"),
    ("--alter", *NAME, "--interval", "soon"),
    ("--alter", *NAME, "--match", "colour=red"),
    ("--alter", *NAME, "--match", "client_id=("),
    ("--describe", *NAME),
    ("--delete", *NAME),
    ("--list",),
    ("--describe", *NAME),
    ("--delete", *NAME),
)
CONFIG_SCRIPT: tuple[tuple[str, ...], ...] = (
    (
        "--alter",
        "--client-metrics",
        "tool-configs",
        "--add-config",
        "metrics=[a.,b.],interval.ms=7000",
    ),
    ("--describe", "--client-metrics", "tool-configs"),
    ("--describe", "--entity-type", "client-metrics"),
    ("--alter", "--client-metrics", "tool-configs", "--add-config", "colour=red"),
    ("--alter", "--client-metrics", "tool-configs", "--delete-config", "metrics,interval.ms"),
    ("--describe", "--entity-type", "client-metrics"),
)


def runs(jars: Sequence[Path], address: str) -> list[ToolRun]:
    server = ("--bootstrap-server", address)
    return run_tools(
        jars,
        [(TOOL, *server, *words) for words in SCRIPT]
        + [(CONFIGS, *server, *words) for words in CONFIG_SCRIPT],
    )


def same_words(run: ToolRun) -> ToolRun:
    """Without what follows in our messages, or in Kafka's, the words that both have."""
    lines = []
    for line in run.output.splitlines():
        for start in (
            "Illegal client matching pattern: ",
            "Invalid value soon",
            "interval.ms='soon'",
        ):
            if start in line:
                line = line.partition(start)[0] + "(refused)"
        lines.append(line)
    return run._replace(output="\n".join(lines))


@pytest.mark.campaign
@pytest.mark.timeout(200)
def test_the_tools_say_the_same_of_subscriptions_to_client_metrics(
    kafka_jars: Path, kafka_tools: Path, kafka_address: str
) -> None:
    if shutil.which("javac") is None:
        pytest.skip("the runner of Kafka's tools needs javac, which is not installed")
    jars = (kafka_tools, kafka_jars)
    theirs = runs(jars, kafka_address)
    with ottla.Broker() as broker:
        ours = runs(jars, broker.bootstrap_servers)
    words = [*SCRIPT, *CONFIG_SCRIPT]
    different = [
        (command, own, other)
        for command, own, other in zip(
            words, map(same_words, ours), map(same_words, theirs), strict=True
        )
        if own != other
    ]
    assert different == []
    assert [run.exit_code for run in ours].count(1) == 5
