"""`ottla topics` through a process of its own."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import pytest
from tests.cli.conftest import Ottla, soon
from tests.cli.processor_time import assert_cheap

from ottla import Admin, Broker
from ottla.admin import NewTopic
from ottla.cli.topics import overview as topics
from ottla.cli.topics.overview import lines_of

LIST_SECONDS = 0.5


def test_topics_are_listed_for_people_and_for_programs(
    cli_broker: Broker, ottla: Ottla, inside: Ottla
) -> None:
    with Admin(bootstrap_servers=cli_broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("listed", num_partitions=3)])
    row = {"NAME": "listed", "PARTITIONS": "3", "REPLICAS": "1"}
    assert row in ottla("topics", "list").table
    (found,) = (t for t in inside("topics", "list", "-o", "json").data if t["name"] == "listed")
    assert found["partitions"] == 3
    assert "partitions: 3" in inside("topics", "list", "-o", "yaml").out
    assert inside("topics", "list", "liste[de]", "--names").lines == ["listed"]
    none = inside("topics", "list", "nothing-.*")
    assert (none.code, none.out) == (0, "")
    assert "nothing-.*" in none.err


def test_a_topic_that_cannot_be_described_is_told_and_exit_code_1(
    inside: Ottla, ottla_topic_name: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = ottla_topic_name()
    inside("topics", "create", name)
    # As if a topic were deleted between the two questions.
    monkeypatch.setattr(topics, "selected_topics", lambda admin, arguments: ([name, "gone"], []))
    done = inside("topics", "list")
    assert (done.code, [row["NAME"] for row in done.table]) == (1, [name])
    assert "gone" in done.err


def test_topics_are_listed_quickly(ottla: Ottla) -> None:
    assert_cheap(lambda: ottla("topics", "list").code == 0, LIST_SECONDS, bare_starts=14)


def test_nobody_there_is_one_line_that_says_what_to_try(ottla: Ottla) -> None:
    done = ottla("topics", "list", "-b", "127.0.0.1:1")
    assert (done.code, done.out) == (1, "")
    (line,) = done.err.splitlines()
    assert "127.0.0.1:1" in line
    assert "ottla serve" in line


def described(run: Ottla, name: str, partitions: int) -> list[str]:
    """Sees that a topic is described as by Kafka's own tool; its configs."""
    head, *lines = run("topics", "describe", "--topic", name).lines
    pattern = (
        r"Topic: {}\tTopicId: [\w-]{{22}}\tPartitionCount: {}\tReplicationFactor: 1\tConfigs: (.*)"
    )
    found = re.fullmatch(pattern.format(name, partitions), head)
    assert found is not None, head
    assert len(lines) == partitions
    for number, line in enumerate(lines):
        pattern = rf"\tTopic: {name}\tPartition: {number}\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: .*"
        assert re.fullmatch(pattern, line), line
    return found[1].split(",")


def test_a_topic_lives_from_create_to_delete(
    anywhere: Ottla, ottla_topic_name: Callable[[], str]
) -> None:
    one, two = ottla_topic_name(), ottla_topic_name()
    made = anywhere(
        "topics", "create", one, two, "--partitions", "2", "--config", "retention.ms=77000"
    )
    assert made.lines == [
        f"topic {name} created: 2 partitions, replication factor 1" for name in (one, two)
    ], made.err
    again = anywhere("topics", "create", one, "--if-not-exists")
    assert (again.code, again.out) == (0, "")
    assert one in again.err
    refused = anywhere("topics", "create", "--topic", one)
    assert refused.code == 1
    assert "--if-not-exists" in refused.err

    soon(lambda: described(anywhere, one, partitions=2))

    changed = anywhere(
        *("topics", "alter", one, "--partitions", "3"),
        *("--config", "cleanup.policy=compact", "--delete-config", "retention.ms"),
    )
    assert changed.lines == [
        f"topic {one} has 3 partitions",
        f"topic {one} changed: cleanup.policy=compact, retention.ms deleted",
    ], changed.err

    def is_described() -> None:
        configs = described(anywhere, one, partitions=3)
        assert "cleanup.policy=compact" in configs
        assert not any(each.startswith("retention.ms") for each in configs)

    soon(is_described)

    would = anywhere("topics", "delete", f"({one}|{two})", "--dry-run")
    assert would.lines == [f"topic {name} would be deleted" for name in sorted((one, two))]
    gone = anywhere("topics", "delete", one, two, "--timeout", "30")
    assert sorted(gone.lines) == sorted(f"topic {name} deleted" for name in (one, two)), gone.err

    def is_gone() -> None:
        missing = anywhere("topics", "delete", one)
        assert (missing.code, missing.out) == (1, "")
        assert one in missing.err

    soon(is_gone)
    assert anywhere("topics", "delete", one, "--if-exists").code == 0


def test_what_fails_for_one_topic_is_told_and_the_others_are_done(
    inside: Ottla, ottla_topic_name: Callable[[], str]
) -> None:
    good = ottla_topic_name()
    made = inside("topics", "create", good, "not/good")
    assert made.code == 1
    assert made.lines == [f"topic {good} created: 1 partition, replication factor 1"]
    (line,) = made.err.splitlines()
    assert "not/good" in line
    other = ottla_topic_name()
    inside("topics", "create", other, "--config", "retention.ms=5")
    changed = inside("topics", "alter", good, other, "--delete-config", "retention.ms")
    assert (changed.code, changed.lines) == (1, [f"topic {other} changed: retention.ms deleted"])
    assert changed.err.startswith(f"ottla: retention.ms is not set for topic {good}: ")
    misspelt = inside("topics", "alter", good, "--delete-config", "nosuch.config")
    assert (misspelt.code, misspelt.out) == (1, "")
    # Before anything is deleted, all words must choose something.
    assert inside("topics", "delete", good, "nothing").code == 1
    assert inside("topics", "list", good, "--names").lines == [good]


def test_the_clusters_own_topics_are_deleted_only_by_force(inside: Ottla) -> None:
    with Broker() as broker:
        inside_it = partial(inside, OTTLA_BOOTSTRAP_SERVER=broker.bootstrap_servers)
        inside_it("topics", "create", "own-kept")
        inside_it("consume", "own-kept", "--group", "own", "--exit")
        done = inside_it("topics", "delete", "__consumer_offsets", "own-kept")
        assert done.code == 1
        assert "all groups and their committed offsets" in done.err
        assert "--force" in done.err
        assert len(inside_it("topics", "list", "__consumer_offsets", "own-kept").table) == 2
        assert inside_it("topics", "delete", "__consumer_offsets", "--force").code == 0


def test_a_pattern_never_means_an_internal_topic(cli_broker: Broker, inside: Ottla) -> None:
    with Admin(bootstrap_servers=cli_broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("not-internal")])
        admin.list_consumer_group_offsets(["nobody"])
    names = inside("topics", "list", "--names").lines
    assert "__consumer_offsets" in names
    assert "__consumer_offsets" not in inside("topics", "list", "--names", "--exclude-internal").out
    would = inside("topics", "delete", ".*", "--dry-run").out
    assert "not-internal" in would
    assert "__consumer_offsets" not in would


@pytest.mark.parametrize(
    "arguments",
    [
        ["create"],
        ["create", "x", "--partitions", "0"],
        ["create", "x", "--config", "retention.ms"],
        ["create", "x", "--replica-assignment", "1:1"],
        ["create", "x", "--replica-assignment", "1", "--partitions", "1"],
        ["alter", "x"],
        ["delete"],
        ["describe", "--topic-id", "short"],
    ],
)
def test_what_makes_no_sense_is_exit_code_2(inside: Ottla, arguments: list[str]) -> None:
    done = inside("topics", *arguments)
    assert (done.code, done.out) == (2, "")
    assert "ottla" in done.err


def test_replicas_may_be_assigned_by_hand(
    inside: Ottla, ottla_topic_name: Callable[[], str]
) -> None:
    name = ottla_topic_name()
    made = inside("topics", "create", name, "--replica-assignment", "1,1,1")
    assert made.lines == [f"topic {name} created: 3 partitions, replication factor 1"], made.err
    (topic,) = inside("topics", "describe", name, "-o", "json").data
    assert [each["replicas"] for each in topic["partitions"]] == [[1], [1], [1]]
    by_id = inside("topics", "describe", f"--topic-id={topic['topic_id']}", "-o", "json")
    assert by_id.data == [topic]


def test_a_partition_without_leader_and_one_that_moves_are_written_as_by_kafka() -> None:
    partition = {
        "partition": 0,
        "leader": None,
        "replicas": [1, 2],
        "isr": [],
        "adding_replicas": [2],
        "removing_replicas": [],
        "elr": None,
        "last_known_elr": [1],
    }
    topic = {"name": "x", "partitions": [partition]}
    assert lines_of(topic, "unavailable-partitions") == [
        "\tTopic: x\tPartition: 0\tLeader: none\tReplicas: 1,2\tIsr: \tAdding Replicas: 2"
        "\tRemoving Replicas: \tElr: N/A\tLastKnownElr: 1"
    ]


def test_a_topic_with_replicas_is_described_with_what_they_are(inside: Ottla) -> None:
    with Broker(nodes=2) as broker:
        run = partial(inside, OTTLA_BOOTSTRAP_SERVER=broker.bootstrap_servers)
        run("topics", "create", "twice", "--replication-factor", "2")
        run("topics", "create", "once", "--replication-factor", "1")
        assert "replicas are one copy" in run("topics", "describe", "twice").err
        assert "copy" not in run("topics", "describe", "once").err
        assert "copy" not in run("topics", "describe", "twice", "-o", "json").err
