"""`ottla cluster`."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable

import pytest
from tests.cli.conftest import Ottla, soon

from ottla import Broker
from ottla.cli.cluster.overview import usable

WAIT_SECONDS = 30


def test_the_cluster_is_described(anywhere: Ottla) -> None:
    def is_described() -> None:
        found = anywhere("cluster", "describe", "-o", "json").data
        assert (found["brokers"], found["controller"]) == (1, 1)
        assert len(found["cluster_id"]) == 22
        assert found["unavailable_partitions"] == 0
        text = anywhere("cluster", "describe").out
        assert found["cluster_id"] in text

    # Other tests delete topics of the same Kafka between two questions of the command.
    soon(is_described)


def test_brokers_versions_and_features_are_listed(anywhere: Ottla) -> None:
    (broker,) = anywhere("cluster", "brokers").table
    assert (broker["ID"], broker["CONTROLLER"], broker["FENCED"]) == ("1", "true", "false")
    versions = {row["API"]: row for row in anywhere("cluster", "api-versions").table}
    assert versions["Metadata"]["KEY"] == "3"
    assert int(versions["Metadata"]["USABLE"]) <= int(versions["Metadata"]["MAX"])
    features = anywhere("cluster", "features", "-o", "json").data
    (transactions,) = (each for each in features if each["feature"] == "transaction.version")
    assert transactions["supported_max_version"] == 2
    (controller,) = anywhere("cluster", "quorum").table
    assert (controller["NODE"], controller["STATUS"], controller["LAG"]) == ("1", "Leader", "0")


def test_log_directories_show_the_sizes_of_partitions(
    anywhere: Ottla, ottla_topic_name: Callable[[], str]
) -> None:
    name = ottla_topic_name()
    assert anywhere("topics", "create", name, "-p", "2").code == 0

    def partitions_are_there() -> None:
        rows = anywhere("cluster", "log-dirs", "--topic", name).table
        assert [(row["TOPIC"], row["PARTITION"], row["SIZE"]) for row in rows] == [
            (name, "0", "0"),
            (name, "1", "0"),
        ]

    soon(partitions_are_there)
    (broker,) = anywhere("cluster", "log-dirs", "--topic-list", name, "-o", "json").data["brokers"]
    (log_dir,) = broker["log_dirs"]
    assert (broker["broker"], log_dir["error"]) == (1, None)
    assert log_dir["total_bytes"] >= log_dir["usable_bytes"] > 0
    assert [each["partition"] for each in log_dir["partitions"]] == [0, 1]
    missing = anywhere("cluster", "log-dirs", "--broker-list", "1,7")
    assert (missing.code, missing.out) == (1, "")
    assert "7" in missing.err


def test_a_cluster_of_three_lists_each_broker_once(inside: Ottla) -> None:
    with Broker(nodes=3) as three:
        servers = three.bootstrap_servers
        brokers = inside("cluster", "brokers", "-b", servers).table
        assert len({row["ID"] for row in brokers}) == len(brokers) == 3
        asked = brokers[1]["ID"]
        versions = inside("cluster", "api-versions", "--broker", asked, "-b", servers).table
        assert {row["BROKER"] for row in versions} == {asked}


@pytest.mark.parametrize(
    ("least", "most", "ours", "expected"),
    [
        (0, 9, (3, 13), 9),
        (0, 13, (0, 9), 9),
        (0, 2, (3, 9), None),
        (10, 12, (0, 9), None),
        (0, 1, None, None),
    ],
)
def test_the_usable_version_is_the_newest_that_both_know(
    least: int, most: int, ours: tuple[int, int] | None, expected: int | None
) -> None:
    assert usable(least, most, ours) == expected


def test_watching_shows_it_again_until_ctrl_c(cli_broker: Broker) -> None:
    command = [sys.executable, "-m", "ottla", "cluster", "brokers", "--watch", "0.05"]
    with subprocess.Popen(
        [*command, "-b", cli_broker.bootstrap_servers],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            heads = (line for line in process.stdout if line.startswith("ID"))
            assert next(heads) == next(heads)
            process.send_signal(signal.SIGINT)
            _, remarks = process.communicate(timeout=WAIT_SECONDS)
            assert (process.returncode, remarks) == (130, "")
        finally:
            process.kill()
