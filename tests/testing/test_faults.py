"""A fault hits the requests that it is for, as often as it says; one that can never hit is refused."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from ottla.durations import seconds_of
from ottla.errors import ConfigError, ErrorCode
from ottla.testing.faults import Faults, IncomingRequest, Outcome
from ottla.testing.subjects import Named


def produce(
    topic: str = "tea", partition: int = 0, client_id: str = "c", node: int = 1
) -> IncomingRequest:
    return IncomingRequest("Produce", client_id, node, [Named(topic, partition)])


def outcomes(faults: Faults, request: IncomingRequest, count: int) -> list[str]:
    met = [faults.match(request) for _ in range(count)]
    return ["-" if each is None else str(each[1]) for each in met]


def test_a_fault_hits_the_first_requests_after_those_that_it_lets_pass() -> None:
    faults = Faults([1, 2])
    fault = faults.add("Produce", error="NOT_LEADER_OR_FOLLOWER", times=2, skip=1)
    assert outcomes(faults, produce(), 4) == ["-", *["NOT_LEADER_OR_FOLLOWER"] * 2, "-"]
    assert (fault.hits, fault.is_over) == (2, True)


@pytest.mark.parametrize(
    ("about", "hits"),
    [
        ({"topic": "tea"}, True),
        ({"topic": "coffee"}, False),
        ({"topic": "tea", "partition": 0}, True),
        ({"topic": "tea", "partition": 1}, False),
        ({"client_id": "c"}, True),
        ({"client_id": "d"}, False),
        ({"node": 1}, True),
        ({"node": 2}, False),
        ({"transactional_id": "x"}, False),
    ],
)
def test_a_fault_is_for_what_it_names(about: dict[str, Any], hits: bool) -> None:
    faults = Faults([1, 2])
    faults.add("Produce", drop="after", **about)
    assert (faults.match(produce()) is not None) is hits


def test_a_fault_of_every_api_hits_any_request() -> None:
    faults = Faults([1, 2])
    faults.add(drop="before")
    assert faults.match(IncomingRequest("Heartbeat", None, 1, [Named()])) is not None


def test_a_script_says_what_becomes_of_each_request() -> None:
    faults = Faults([1, 2])
    script = ["ok", "lost answer", "NOT_ENOUGH_REPLICAS", "200ms", "lost request"]
    faults.script("Produce", script, topic="tea")
    assert outcomes(faults, produce("coffee"), 2) == ["-", "-"]
    assert outcomes(faults, produce(), 6) == [
        "ok",
        "lost answer",
        "NOT_ENOUGH_REPLICAS",
        "answered 0.2 s late",
        "lost request",
        "-",
    ]


def test_a_seed_decides_which_requests_a_probability_hits() -> None:
    def hits(seed: int) -> list[str]:
        faults = Faults([1, 2])
        faults.add("Produce", error=6, probability=0.5, seed=seed)
        return outcomes(faults, produce(), 50)

    assert hits(1) == hits(1) != hits(2)
    assert 10 < hits(1).count("-") < 40


def test_the_first_fault_that_hits_counts() -> None:
    faults = Faults([1, 2])
    faults.add("Produce", error="REQUEST_TIMED_OUT", times=1)
    faults.add("Produce", drop="before", times=1)
    assert outcomes(faults, produce(), 3) == ["REQUEST_TIMED_OUT", "lost request", "-"]


def test_a_fault_ends_with_its_block_by_remove_and_by_clear() -> None:
    faults = Faults([1, 2])
    with faults.add("Produce", drop="before"):
        assert len(faults) == 1
    assert len(faults) == 0
    fault = faults.add("Produce", drop="before")
    fault.remove()
    fault.remove()
    faults.add("Fetch", delay=1)
    faults.clear()
    assert list(faults) == []


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"api": "Prduce", "drop": "before"}, "did you mean Produce"),
        ({"api": "PRODUCE", "drop": "before"}, "did you mean Produce"),
        ({"api": "Produce"}, "needs error=, drop= or delay="),
        ({"error": "NOT_LEADER"}, "did you mean NOT_LEADER_OR_FOLLOWER"),
        ({"error": 0}, "NONE is no error"),
        ({"error": 12345}, "no error 12345"),
        ({"drop": "never"}, '"before" or "after"'),
        ({"drop": "before", "error": 6}, "need an answer"),
        ({"drop": "before", "delay": "1s"}, "need an answer"),
        ({"drop": "after", "topic": 3}, "topic=3 can never match"),
        ({"drop": "after", "client_id": "ottla-testing"}, "it is the kit's own"),
        ({"drop": "after", "node": 9}, "there is no node 9: the nodes are 1, 2"),
        ({"delay": -1}, "negative"),
        ({"delay": "soon"}, "is no duration"),
        ({"drop": "after", "times": 0}, "times=0 would hit nothing"),
        ({"drop": "after", "skip": -1}, "skip=-1"),
        ({"drop": "after", "probability": 0}, "probability=0"),
        ({"drop": "after", "probability": 1.5}, "probability=1.5"),
        ({"api": "Produce", "drop": "after", "group": "g"}, "names no group"),
        ({"api": "Heartbeat", "drop": "after", "topic": "t"}, "names no topic"),
        ({"api": "Metadata", "drop": "after", "topic": "t", "partition": 0}, "names no partition"),
        ({"api": "Fetch", "drop": "after", "transactional_id": "x"}, "names no transactional_id"),
        (
            {"api": "OffsetCommit", "drop": "after", "transactional_id": "x"},
            "names no transactional",
        ),
        ({"drop": "after", "probability": float("nan")}, "probability=nan"),
        ({"drop": "after", "probability": "often"}, "probability='often'"),
        ({"drop": "after", "probability": True}, "probability=True"),
        ({"drop": "after", "seed": "x"}, "seed='x'"),
        ({"drop": "after", "seed": 7}, "seed= needs a probability="),
        ({"drop": "after", "error": 6}, 'write drop="before"'),
        ({"drop": "after", "times": 1.5}, "times=1.5"),
        ({"delay": float("nan")}, "negative or endless"),
        ({"delay": "9" * 400 + "s"}, "is no duration"),
        ({"delay": 0}, "a delay of 0"),
        ({"delay": 10**400}, "endless"),
        ({"drop": "after", "topic": "\ud800"}, "no text of UTF-8"),
        ({"drop": "after", "topic": "t", "partition": 1 << 31}, "is no number of a partition"),
        ({"error": "not_leader_or_follower"}, "did you mean NOT_LEADER_OR_FOLLOWER"),
        ({"drop": "after", "topic": ""}, "topic='' can never match"),
        ({"drop": "after", "group": ""}, "group='' can never match"),
        ({"api": None, "drop": "after"}, "serves no API None"),
        ({"api": ["Produce"], "drop": "after"}, "serves no API"),
        ({"drop": "after", "node": True}, "no node True"),
        ({"drop": "after", "partition": 0}, "partition= needs topic="),
        ({"drop": "after", "topic": "t", "partition": -1}, "partition=-1"),
    ],
)
def test_a_fault_that_can_never_hit_is_refused(arguments: dict[str, Any], reason: str) -> None:
    faults = Faults([1, 2])
    with pytest.raises(ConfigError, match=reason):
        faults.add(**arguments)
    assert len(faults) == 0


def test_a_misspelt_outcome_is_told_from_an_error() -> None:
    for wrong in ("lost anser", "after"):
        with pytest.raises(
            ConfigError, match=f"'{wrong}' is no outcome: write 'ok', 'lost request'"
        ):
            Faults([1]).script("Produce", [wrong])
    with pytest.raises(ConfigError, match="did you mean NOT_LEADER_OR_FOLLOWER"):
        Faults([1]).script("Produce", ["not_leader_or_follower"])


@pytest.mark.parametrize(
    "outcomes", [[], "ok", ["okay"], ["5 parsecs"], ["-1s"], ["ok", 5], None, {"ok": 1}]
)
def test_a_script_without_sense_is_refused(outcomes: Any) -> None:
    with pytest.raises(ConfigError):
        Faults([1, 2]).script("Produce", outcomes)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"client_id": 5},
        {"client_id": [5]},
        {"client_id": "ottla-testing"},
        {"node": "1"},
        {"node": 1.5},
        {"node": True},
        {"node": [3]},
        {"node": [1, 2]},
    ],
)
def test_a_network_partition_without_sense_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Faults([1, 2]).partition_network(**arguments)


def test_what_a_fault_is_can_be_read() -> None:
    fault = Faults([1, 2]).add("Produce", topic="tea", error="REQUEST_TIMED_OUT", delay="1s")
    assert str(fault) == (
        "Produce, topic=tea: REQUEST_TIMED_OUT, answered 1 s late; 0 request(s) so far"
    )
    assert Outcome(ErrorCode.REQUEST_TIMED_OUT) != Outcome()


@pytest.mark.parametrize(
    ("duration", "seconds"),
    [("200ms", 0.2), ("5s", 5), ("1h30m", 5400), ("1d", 86400), (2, 2), (0.5, 0.5)],
)
def test_durations_are_text_or_seconds(duration: str | float, seconds: float) -> None:
    assert seconds_of(duration) == seconds
    assert seconds_of(timedelta(seconds=seconds)) == seconds
