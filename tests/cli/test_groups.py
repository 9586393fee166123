"""`ottla groups` through a process of its own, against our broker and against Apache Kafka."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.apache_kafka.conftest import kafka_address, kafka_jars
from tests.broker.requests import eventually
from tests.cli.conftest import Ottla, Result, soon
from tests.client.admin.consumer_members import ConsumerMember, ShareMember

from ottla import Admin, Broker, Consumer, Producer
from ottla.admin import NewTopic
from ottla.client.raw import RawConnection

__all__ = ["kafka_address", "kafka_jars"]

WAIT_SECONDS = 20.0
Groups = Callable[..., Result]


@pytest.fixture(params=["ottla", "kafka"])
def servers(request: pytest.FixtureRequest, cli_broker: Broker) -> str:
    """Where a broker is: ours, or Apache Kafka's."""
    if request.param == "ottla":
        return cli_broker.bootstrap_servers
    address: str = request.getfixturevalue("kafka_address")
    return address


@pytest.fixture
def groups(servers: str, ottla: Ottla) -> Groups:
    """`ottla groups …` there."""
    return lambda *arguments: ottla("groups", *arguments, OTTLA_BOOTSTRAP_SERVER=servers)


@pytest.fixture
def groups_inside(servers: str, inside: Ottla) -> Groups:
    """The same, in this process."""
    return lambda *arguments: inside("groups", *arguments, OTTLA_BOOTSTRAP_SERVER=servers)


@pytest.fixture
def topic(servers: str) -> str:
    """A topic with two partitions: four records in the first, none in the second."""
    name = f"of-groups-{uuid.uuid4().hex[:8]}"
    with Admin(bootstrap_servers=servers) as admin:
        # The records are old: retention would take them if it looked at this moment.
        admin.create_topics([NewTopic(name, 2, 1, {"retention.ms": "-1"})])
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(4):
            at_ms = 1_700_000_000_000 + number * 1000
            producer.send(name, b"x", partition=0, timestamp_ms=at_ms)
    return name


@pytest.fixture
def group(servers: str, topic: str) -> str:
    """A group without members that has read one record of the topic."""
    with Admin(bootstrap_servers=servers) as admin:
        admin.alter_consumer_group_offsets(topic, {(topic, 0): 1, (topic, 1): 0})
    return topic


@pytest.fixture
def member(servers: str, group: str, topic: str) -> Iterator[Consumer]:
    """The only member of the group, which has both partitions."""
    with Consumer(
        bootstrap_servers=servers, group_id=group, client_id="kitchen", enable_auto_commit=False
    ) as consumer:
        consumer.subscribe([topic])
        assert eventually(lambda: bool(consumer.poll(0.1) or consumer.assignment()), WAIT_SECONDS)
        yield consumer


def offsets_of(found: Result) -> dict[str, list[str]]:
    """CURRENT-OFFSET, LOG-END-OFFSET and LAG by partition."""
    return {
        row["PARTITION"]: [row["CURRENT-OFFSET"], row["LOG-END-OFFSET"], row["LAG"]]
        for row in found.table
    }


def test_no_groups_and_none_of_a_kind_are_told_apart(inside: Ottla) -> None:
    with Broker() as broker:
        there = broker.bootstrap_servers
        none = inside("groups", "list", OTTLA_BOOTSTRAP_SERVER=there)
        assert (none.code, none.out, none.err) == (0, "", "there are no groups\n")
        none = inside("groups", "list", "--state", "stable", OTTLA_BOOTSTRAP_SERVER=there)
        assert none.err == "there are no such groups\n"


def test_groups_without_members_are_listed_and_described(
    groups: Groups, group: str, topic: str
) -> None:
    listed = groups("list", "--state", "empty", "--type", "Classic")
    assert {"GROUP": group, "TYPE": "Classic", "PROTOCOL": "-", "STATE": "Empty"} in listed.table
    found = groups("describe", group)
    assert found.lines[0].split() == (
        [
            "GROUP",
            "TOPIC",
            "PARTITION",
            "CURRENT-OFFSET",
            "LOG-END-OFFSET",
            "LAG",
            "CONSUMER-ID",
            "HOST",
            "CLIENT-ID",
        ]
    )
    assert offsets_of(found) == {"0": ["1", "4", "3"], "1": ["0", "0", "0"]}
    assert {(row["CONSUMER-ID"], row["HOST"]) for row in found.table} == {("-", "-")}
    assert (found.code, found.err) == (0, f"Consumer group '{group}' has no active members.\n")


def test_members_are_described_in_kafkas_columns(
    groups: Groups, group: str, topic: str, member: Consumer
) -> None:
    rows = groups("describe", "--group", group, "-o", "json").data
    assert [(r["topic"], r["partition"], r["lag"]) for r in rows] == [(topic, 0, 3), (topic, 1, 0)]
    assert {(r["host"], r["client_id"]) for r in rows} == {("/127.0.0.1", "kitchen")}
    (row,) = groups("describe", group, "--members", "--verbose").table
    assert list(row) == [
        *("GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS", "TYPE", "CURRENT-EPOCH"),
        *("CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT", "SUBSCRIPTION"),
    ]
    assert row["CONSUMER-ID"].startswith("kitchen")
    assert (row["#PARTITIONS"], row["CURRENT-ASSIGNMENT"]) == ("2", f"{topic}:0,1")
    assert (row["TYPE"], row["SUBSCRIPTION"]) == ("Classic", topic)
    assert (row["CURRENT-EPOCH"], row["TARGET-EPOCH"], row["TARGET-ASSIGNMENT"]) == ("-", "-", "-")
    (row,) = groups("describe", group, "--state").table
    assert (row["STATE"], row["#MEMBERS"], row["ASSIGNMENT-STRATEGY"]) == ("Stable", "1", "range")
    assert row["COORDINATOR (ID)"].startswith("127.0.0.1:")
    refused = groups("reset-offsets", group, "--topic", topic, "--to-latest", "--execute")
    assert (refused.code, refused.out) == (1, "")
    assert "only be reset if group" in refused.err
    kept = groups("delete", group)
    assert (kept.code, kept.out) == (1, "")
    assert "stop its consumers first" in kept.err


@pytest.mark.parametrize("servers", ["ottla"], indirect=True)
def test_offsets_are_reset_in_every_way(
    groups_inside: Groups, group: str, topic: str, tmp_path: Path
) -> None:
    def planned(*arguments: str) -> list[str]:
        done = groups_inside("reset-offsets", group, "--topic", f"{topic}:0", *arguments)
        assert done.code == 0, done.err
        return [row["NEW-OFFSET"] for row in done.table]

    assert planned("--to-earliest") == ["0"]
    assert planned("--to-latest") == ["4"]
    assert planned("--to-current") == ["1"]
    assert planned("--shift-by", "2") == ["3"]
    assert planned("--shift-by", "-9") == ["0"]
    assert planned("--to-datetime", "2023-11-14T22:13:22.000") == ["2"]
    assert planned("--by-duration", "PT1S") == ["4"]
    too_far = groups_inside("reset-offsets", group, "--topic", topic, "--to-offset", "9")
    assert [row["NEW-OFFSET"] for row in too_far.table] == ["4", "0"]
    assert f"new offset (9) is higher than the latest offset of {topic}-0" in too_far.err
    assert "dry run" in too_far.err
    bad = tmp_path / "bad.csv"
    bad.write_text("nonsense\n", encoding="utf-8")
    done = groups_inside("reset-offsets", group, "--from-file", "bad.csv")
    assert (done.code, done.err) == (
        1,
        "ottla: bad.csv, line 1: it is not topic,partition,offset\n",
    )


def test_offsets_are_exported_imported_and_deleted(
    groups: Groups, group: str, topic: str, tmp_path: Path
) -> None:
    done = groups("reset-offsets", group, "--all-topics", "--to-earliest", "--execute", "--export")
    assert done.out == f"{topic},0,0\n{topic},1,0\n"
    assert done.err == ""
    (tmp_path / "plan.csv").write_text(f"{topic},0,3\n", encoding="utf-8")
    done = groups("reset-offsets", group, "--from-file", "plan.csv", "--execute")
    assert [row["NEW-OFFSET"] for row in done.table] == ["3"]
    assert offsets_of(groups("describe", group))["0"] == ["3", "4", "1"]
    done = groups("delete-offsets", group, "--topic", f"{topic}:1")
    assert done.out == f"offset of group {group} for {topic}-1 deleted\n"
    assert list(offsets_of(groups("describe", group))) == ["0"]
    gone = groups("delete", group, "never-was")
    assert (gone.code, gone.out) == (1, f"group {group} deleted\n")
    assert "group 'never-was' does not exist" in gone.err
    assert groups("describe", group).code == 1


@pytest.mark.parametrize("servers", ["ottla"], indirect=True)
def test_no_group_is_reset_if_one_cannot_be(
    groups_inside: Groups, servers: str, group: str, topic: str
) -> None:
    new = f"new-{group}"
    reset = ("reset-offsets", group, new, "--topic", f"{topic}:0")
    done = groups_inside(*reset, "--shift-by", "1", "--execute")
    assert (done.code, done.out) == (1, "")
    assert f"group {new} has committed nothing for {topic}-0" in done.err
    assert offsets_of(groups_inside("describe", group))["0"][0] == "1"
    done = groups_inside(*reset, "--to-offset", "2", "--execute", "--export")
    assert done.out == f"{group},{topic},0,2\n{new},{topic},0,2\n"
    assert done.err == f"group '{new}' does not exist yet: committing offsets creates it\n"


def test_lag_does_not_count_markers(
    groups_inside: Groups, servers: str, topic: str, group: str
) -> None:
    with Producer(bootstrap_servers=servers, transactional_id=topic) as producer:
        producer.init_transactions()
        for number in range(3):
            with producer.transaction():
                producer.send(topic, b"%d" % number, partition=1)
        producer.begin_transaction()
        producer.send(topic, b"never", partition=1)
        producer.flush()
        producer.abort_transaction()

    def markers_are_there() -> None:
        assert offsets_of(groups_inside("describe", group))["1"] == ["0", "8", "4"]

    soon(markers_are_there)
    committed = groups_inside(
        "describe", group, "--isolation", "read_committed", "-o", "json"
    ).data[1]
    assert (committed["lag"], committed["offset_lag"]) == (3, 8)
    other = f"other-{group}"
    with Admin(bootstrap_servers=servers) as admin:
        # Behind the last record, before its marker: where a consumer is that has read everything.
        admin.alter_consumer_group_offsets(group, {(topic, 1): 7})
        admin.alter_consumer_group_offsets(other, {(topic, 1): 2, (topic, 0): 2})
    rows = groups_inside("describe", group, other).table
    lags = {(row["GROUP"], row["PARTITION"]): row["LAG"] for row in rows}
    assert lags[group, "1"] == "0"
    assert (lags[other, "0"], lags[other, "1"]) == ("2", "3")


@pytest.mark.parametrize("servers", ["kafka"], indirect=True)
def test_groups_of_the_new_protocol_are_described(
    groups: Groups, servers: str, topic: str, ottla: Ottla
) -> None:
    confluent = pytest.importorskip("confluent_kafka")
    group = f"new-{topic}"
    consumer = confluent.Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.subscribe([topic])
        assert eventually(lambda: consumer.poll(0.1) is not None, WAIT_SECONDS)
        consumer.commit(asynchronous=False)
        assert group in [r["GROUP"] for r in groups("list", "--type", "consumer").table]
        rows = groups("describe", group, "-o", "json").data
        assert [(r["partition"], r["lag"]) for r in rows] == [(0, 3), (1, None)]
        (row,) = groups("describe", group, "--members").table
        assert row["#PARTITIONS"] == "2"
        lines = ottla("consume", "__consumer_offsets", "-e", "-b", servers).lines
        kinds = {json.loads(line)["key"]["kind"] for line in lines}
        assert {"offset_commit", "consumer_group_member_metadata"} <= kinds
    finally:
        consumer.close()


@pytest.fixture
def reconciling(servers: str, topic: str) -> Iterator[tuple[ConsumerMember, ConsumerMember]]:
    """A consumer group whose first member has both partitions, and has to give one to the second."""
    with RawConnection(servers) as connection, Admin(bootstrap_servers=servers) as admin:
        group = f"reconciling-{topic}"
        first = ConsumerMember(connection, group, [topic])
        first.obey_until(lambda: first.owns(2))
        second = ConsumerMember(
            connection, group, [], regex=topic, instance_id="two", rack_id="rack-2"
        )

        def has_target() -> bool:
            members = admin.describe_groups([group])[group].members
            return all(len(each.target_assignment or ()) == 1 for each in members)

        second.obey_until(has_target)
        yield first, second
        admin.remove_members_from_consumer_group(group)
        admin.delete_consumer_groups([group])


def test_verbose_shows_epochs_and_target_and_current_assignments(
    groups: Groups,
    groups_inside: Groups,
    topic: str,
    reconciling: tuple[ConsumerMember, ConsumerMember],
) -> None:
    first, second = reconciling
    group = first.group
    listed = groups("list", "--type", "consumer", "--state", "reconciling").table
    assert {
        "GROUP": group,
        "TYPE": "Consumer",
        "PROTOCOL": "consumer",
        "STATE": "Reconciling",
    } in listed
    (found,) = groups("describe", group, "--verbose", "-o", "json").data
    assert (found["type"], found["state"], found["member_count"]) == ("Consumer", "Reconciling", 2)
    epoch = found["group_epoch"]
    assert (found["target_assignment_epoch"], found["assignment_strategy"]) == (epoch, "uniform")
    members = {each["consumer_id"]: each for each in found["members"]}
    one, two = members[first.member_id], members[second.member_id]
    assert one["assignment"] == [{"topic": topic, "partitions": [0, 1]}]
    assert [len(each["partitions"]) for each in one["target_assignment"]] == [1]
    assert (one["member_epoch"], one["target_epoch"]) == (first.epoch, epoch)
    assert (one["subscribed_topics"], one["subscribed_topic_regex"]) == ([topic], None)
    assert (two["assignment"], two["member_epoch"], two["type"]) == ([], epoch, "Consumer")
    assert (two["group_instance_id"], two["rack"]) == ("two", "rack-2")
    assert (two["subscribed_topics"], two["subscribed_topic_regex"]) == ([], topic)
    assert [each["consumer_id"] for each in found["offsets"]] == [first.member_id] * 2

    shown = groups_inside("describe", group, "--verbose")
    assert shown.err == f"Warning: Consumer group '{group}' is rebalancing.\n"
    state, members_table, offsets = (Result(0, text, "").table for text in shown.out.split("\n\n"))
    assert [(row["GROUP-EPOCH"], row["TARGET-ASSIGNMENT-EPOCH"]) for row in state] == [
        (str(epoch), str(epoch))
    ]
    assert {(row["RACK"], row["GROUP-INSTANCE-ID"]) for row in members_table} == {
        ("-", "-"),
        ("rack-2", "two"),
    }
    assert {row["SUBSCRIPTION"] for row in members_table} == {topic, f"/{topic}/"}
    assert [row["LEADER-EPOCH"] for row in offsets] == ["-", "-"]
    plain = groups_inside("describe", group, "--state").table
    assert "GROUP-EPOCH" not in plain[0]
    refused = groups_inside("delete-offsets", group, "--topic", topic)
    assert refused.code == 1
    refused = groups_inside("reset-offsets", group, "--topic", topic, "--to-latest", "--execute")
    assert f"'{group}' is inactive, but it is Reconciling: stop its consumers first" in refused.err


@pytest.mark.parametrize("servers", ["kafka"], indirect=True)
def test_share_groups_are_described_and_have_no_offsets_to_reset(
    groups_inside: Groups, servers: str, topic: str
) -> None:
    group = f"share-{topic}"
    with RawConnection(servers) as connection:
        member = ShareMember(connection, group, topic)
        listed = groups_inside("list", "--type", "share").table
        assert (group, "share") in [(row["GROUP"], row["PROTOCOL"]) for row in listed]
        (row,) = groups_inside("describe", group, "--members", "--verbose").table
        assert (row["CONSUMER-ID"], row["TYPE"]) == (member.member_id, "Share")
        assert row["SUBSCRIPTION"] == topic
        shown = groups_inside("describe", group)
        assert f"Share group '{group}' commits no offsets" in shown.err
        refused = groups_inside("reset-offsets", group, "--topic", topic, "--to-latest")
        assert (refused.code, refused.out) == (1, "")
        assert f"group '{group}' has no offsets to reset: it is a share group" in refused.err
        member.leave()


@pytest.mark.parametrize("servers", ["ottla"], indirect=True)
def test_mistakes_are_said_in_one_line(groups_inside: Groups, topic: str) -> None:
    reset = ("--all-topics", "--to-earliest")
    for arguments, code, says in (
        (["describe", "never-was"], 1, "'never-was' does not exist: `ottla groups list`"),
        (["describe"], 2, "name one, or give --all-groups"),
        (
            ["list", "--state", "tired"],
            2,
            "tired is not a state of groups: there are PreparingRebalance, ",
        ),
        (["reset-offsets", "g", "--to-latest"], 2, "give --topic TOPIC or --all-topics"),
        (["reset-offsets", "g", "--topic", topic, "--from-file", "f"], 2, "leave out --topic"),
        (["reset-offsets", "g", *reset, "--export", "-o", "json"], 2, "leave out -o json"),
        (["reset-offsets", "typo", *reset, "--execute"], 1, "'typo' does not exist: `ottla groups"),
        (["delete-offsets", "--group", "g", "--topic", f"{topic}:0"], 1, f"nothing for {topic}-0"),
        (["delete-offsets", "--topic", topic], 2, "no group is given"),
    ):
        done = groups_inside(*arguments)
        assert (done.code, done.out) == (code, ""), done
        assert says in done.err
        assert done.err.count("\n") == 1
