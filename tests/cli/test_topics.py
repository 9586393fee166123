"""`ottla topics` through a process of its own."""

from __future__ import annotations

import os

from tests.cli.conftest import Ottla

from ottla import Admin, Broker, NewTopic

LIST_SECONDS = 0.5


def test_topics_are_listed_for_people_and_for_programs(cli_broker: Broker, ottla: Ottla) -> None:
    with Admin(bootstrap_servers=cli_broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("listed", num_partitions=3)])
    row = {"NAME": "listed", "PARTITIONS": "3", "REPLICAS": "1"}
    assert row in ottla("topics", "list").table
    (found,) = (t for t in ottla("topics", "list", "-o", "json").data if t["name"] == "listed")
    assert found["partitions"] == 3
    assert "partitions: 3" in ottla("topics", "list", "-o", "yaml").out


def test_topics_are_listed_quickly(ottla: Ottla) -> None:
    # Processor time: what else the machine does is not the command's fault.
    used = []
    for _ in range(3):
        began = os.times()
        assert ottla("topics", "list").code == 0
        now = os.times()
        used.append(
            now.children_user + now.children_system - began.children_user - began.children_system
        )
    assert min(used) < LIST_SECONDS


def test_nobody_there_is_one_line_that_says_what_to_try(ottla: Ottla) -> None:
    done = ottla("topics", "list", "-b", "127.0.0.1:1")
    assert (done.code, done.out) == (1, "")
    (line,) = done.err.splitlines()
    assert "127.0.0.1:1" in line
    assert "ottla serve" in line
