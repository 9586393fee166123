"""Every anomaly, put into a good history, is found; and what is only unknown is not taken for one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.history.checker import Kind, check
from tests.history.events import READ_COMMITTED, READ_UNCOMMITTED, Event
from tests.history.good_history import SOURCE, TARGET, good_history, only

History = list[Event]


def final(history: History, isolation: str, topic: str, partition: int) -> Event:
    return only(
        history,
        lambda event: (
            event["what"] == "final_records"
            and (event["isolation"], event["topic"], event["partition"])
            == (isolation, topic, partition)
        ),
    )


def remove_value(history: History, value: str) -> None:
    """As if a write had never been: nobody reads it."""
    for event in history:
        if event["what"] in ("final_records", "poll"):
            event["records"] = [record for record in event["records"] if value != record[-1]]


def drop(history: History, worker: str, number: int, *whats: str) -> None:
    history[:] = [
        event
        for event in history
        if not (event["worker"] == worker and event.get("txn") == number and event["what"] in whats)
    ]


def polls(history: History, worker: str, topic: str, partition: int) -> Event:
    return only(
        history,
        lambda event: (
            event["what"] == "poll"
            and event["worker"] == worker
            and event["records"][0][:2] == [topic, partition]
        ),
    )


# Each puts one anomaly into the history.


def two_values_for_readers(history: History) -> None:
    polls(history, "U", SOURCE, 0)["records"][2][3] = "P.2.5"


def two_values_for_the_producer(history: History) -> None:
    only(history, lambda event: event.get("value") == "P.1.3" and event["what"] == "ack")[
        "offset"
    ] = 0


def never_sent(history: History) -> None:
    polls(history, "R", SOURCE, 1)["records"].append([SOURCE, 1, 9, "P.9.9"])


def twice_in_the_log(history: History) -> None:
    for isolation in (READ_COMMITTED, READ_UNCOMMITTED):
        final(history, isolation, SOURCE, 1)["records"].append([5, "P.1.2"])


def twice_for_a_reader(history: History) -> None:
    polls(history, "R", SOURCE, 1)["records"].append([SOURCE, 1, 8, "P.1.2"])


def lost(history: History) -> None:
    remove_value(history, "P.1.2")


def in_another_partition(history: History) -> None:
    send = only(history, lambda event: event.get("value") == "P.1.2" and event["what"] == "send")
    send["partition"] = 0


def at_another_offset(history: History) -> None:
    only(history, lambda event: event.get("value") == "P.3.7" and event["what"] == "ack")[
        "offset"
    ] = 3


def aborted_and_polled(history: History) -> None:
    polls(history, "R", SOURCE, 0)["records"].insert(2, [SOURCE, 0, 3, "P.2.4"])


def aborted_and_there_at_the_end(history: History) -> None:
    final(history, READ_COMMITTED, SOURCE, 1)["records"].insert(1, [2, "P.2.5"])


def never_committed_and_polled(history: History) -> None:
    # The producer of transaction 3 died before it could call commit.
    drop(history, "P", 3, "commit")


def torn(history: History) -> None:
    remove_value(history, "P.3.7")


def torn_after_it_was_seen(history: History) -> None:
    for value in ("P.3.6", "P.3.7"):
        for isolation in (READ_COMMITTED, READ_UNCOMMITTED):
            for partition in (0, 1):
                event = final(history, isolation, SOURCE, partition)
                event["records"] = [one for one in event["records"] if one[1] != value]


def out_of_order(history: History) -> None:
    for event in history:
        if event["what"] == "send" and event["value"] in ("P.1.1", "P.1.3"):
            event["value"] = {"P.1.1": "P.1.3", "P.1.3": "P.1.1"}[event["value"]]


def poll_backwards(history: History) -> None:
    records = polls(history, "R", SOURCE, 0)["records"]
    records[0], records[1] = records[1], records[0]


def poll_again(history: History) -> None:
    polls(history, "U", TARGET, 1)["records"].append([TARGET, 1, 0, "C.2.4<P.1.2"])


def poll_skips(history: History) -> None:
    del polls(history, "R", SOURCE, 0)["records"][1]


def poll_skips_the_first(history: History) -> None:
    del polls(history, "R", SOURCE, 1)["records"][0]


def poll_skips_uncommitted(history: History) -> None:
    del polls(history, "U", SOURCE, 0)["records"][2]


def position_forgotten(history: History) -> None:
    position = [event for event in history if event["what"] == "position"][-2]
    position["offsets"] = [[SOURCE, 0, -1], [SOURCE, 1, 1]]


def position_of_an_aborted_transaction(history: History) -> None:
    position = [event for event in history if event["what"] == "position"][1]
    position["offsets"][0][2] = 1


def position_lost_at_the_end(history: History) -> None:
    only(history, lambda event: event["what"] == "final_committed")["offsets"] = []


def copied_twice(history: History) -> None:
    # The abort of the copier's first transaction did not take.
    drop(history, "C", 1, "abort", "aborted")
    history.append({"at": 1e6, "worker": "C", "what": "commit", "txn": 1})
    final(history, READ_COMMITTED, TARGET, 0)["records"].insert(0, [0, "C.1.1<P.1.1"])


def offsets_without_output(history: History) -> None:
    for value in ("C.3.5<P.3.6", "C.3.6<P.3.7"):
        remove_value(history, value)


def output_without_offsets(history: History) -> None:
    event = only(history, lambda event: event["what"] == "final_committed")
    event["offsets"] = [[SOURCE, 0, 2], [SOURCE, 1, 1]]


def copy_of_nothing(history: History) -> None:
    for event in history:
        if event.get("value", "").startswith("C.3.5"):
            event["value"] = "C.3.5<P.2.4"
        for record in event.get("records", ()):
            if record[-1].startswith("C.3.5"):
                record[-1] = "C.3.5<P.2.4"


def not_stable(history: History) -> None:
    event = only(
        history,
        lambda event: (
            event["what"] == "final_offsets" and (event["topic"], event["partition"]) == (SOURCE, 0)
        ),
    )
    event["last_stable_offset"] -= 2


def unfinished(history: History) -> None:
    states = only(history, lambda event: event["what"] == "final_transactions")["states"]
    states["id-P"] = "PrepareCommit"


INJECTED: list[tuple[Callable[[History], None], Kind]] = [
    (two_values_for_readers, Kind.TWO_VALUES),
    (two_values_for_the_producer, Kind.TWO_VALUES),
    (never_sent, Kind.NEVER_SENT),
    (twice_in_the_log, Kind.DUPLICATE),
    (twice_for_a_reader, Kind.DUPLICATE),
    (lost, Kind.LOST),
    (in_another_partition, Kind.MISPLACED),
    (at_another_offset, Kind.MISPLACED),
    (aborted_and_polled, Kind.ABORTED_READ),
    (aborted_and_there_at_the_end, Kind.ABORTED_READ),
    (never_committed_and_polled, Kind.ABORTED_READ),
    (torn, Kind.TORN),
    (torn_after_it_was_seen, Kind.TORN),
    (out_of_order, Kind.OUT_OF_ORDER),
    (poll_backwards, Kind.BACKWARDS),
    (poll_again, Kind.BACKWARDS),
    (poll_skips, Kind.SKIPPED),
    (poll_skips_the_first, Kind.SKIPPED),
    (poll_skips_uncommitted, Kind.SKIPPED),
    (position_forgotten, Kind.STALE_POSITION),
    (position_lost_at_the_end, Kind.STALE_POSITION),
    (position_of_an_aborted_transaction, Kind.WRONG_POSITION),
    (copied_twice, Kind.APART),
    (offsets_without_output, Kind.APART),
    (output_without_offsets, Kind.APART),
    (copy_of_nothing, Kind.APART),
    (not_stable, Kind.NOT_STABLE),
    (unfinished, Kind.UNFINISHED),
]


@pytest.mark.parametrize(
    ("inject", "kind"), INJECTED, ids=[inject.__name__ for inject, _ in INJECTED]
)
def test_an_anomaly_is_found(inject: Callable[[History], None], kind: Kind) -> None:
    history = good_history()
    inject(history)
    assert kind in {anomaly.kind for anomaly in check(history)}


def test_every_kind_of_anomaly_is_tried() -> None:
    assert {kind for _, kind in INJECTED} == set(Kind)


def test_a_good_history_has_no_anomaly() -> None:
    assert check(good_history()) == []


def test_a_commit_of_unknown_outcome_may_have_failed() -> None:
    history = good_history()
    gone = ("P.3.6", "P.3.7", "C.3.5<P.3.6", "C.3.6<P.3.7")
    for value in gone:
        remove_value(history, value)
    drop(history, "P", 3, "ack")
    drop(history, "C", 3, "begin", "send", "ack", "offsets", "commit")
    before = [[SOURCE, 0, 2], [SOURCE, 1, 1]]
    only(history, lambda event: event["what"] == "final_committed")["offsets"] = before
    [event for event in history if event["what"] == "position"][-1]["offsets"] = before
    assert check(history) == []


def test_a_write_of_unknown_outcome_may_be_in_an_aborted_transaction() -> None:
    history = good_history()
    drop(history, "P", 2, "ack")
    history.append(
        {"at": 1e6, "worker": "P", "what": "nack", "txn": 2, "value": "P.2.4", "error": "timeout"}
    )
    assert check(history) == []


def test_a_reader_that_begins_again_may_see_the_same_again() -> None:
    history = good_history()
    again = [event for event in history if event["worker"] == "R"]
    assert check([*history, *again]) == []
