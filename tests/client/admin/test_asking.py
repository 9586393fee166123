"""How calls are repeated: by what each error code means, until the time is over, and nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import pytest

from ottla.client.aio.admin.answers import (
    AT_CONTROLLER,
    AT_COORDINATOR,
    AT_LEADER,
    Answers,
    ErrorMeaning,
    ErrorMeanings,
)
from ottla.client.aio.admin.requests import AdminRequests
from ottla.client.aio.network.network import Network
from ottla.config.admin import AdminConfig
from ottla.config.client import read_client_config
from ottla.errors import (
    ErrorCode,
    KafkaError,
    PartialFailureError,
    TimedOutError,
    exception_for,
)

# What a node says about a key: an error code, or its own id.
Script = Callable[[int, str, int], ErrorCode]
NONE = ErrorCode.NONE


class NoNetwork:
    """Of the network, the calls of these tests need the names of nodes, and tell it when a node fails."""

    def name_of(self, node_id: int) -> str:
        return f"node {node_id}"

    def request_update(self) -> None:
        pass


class Places:
    """Says where keys are; a second look finds them at the next node."""

    what = "thing"
    plural = "things"

    def __init__(self, meanings: ErrorMeanings, failures: Sequence[KafkaError] = ()) -> None:
        self.meanings = meanings
        self.looks: dict[str, int] = {}
        self._failures = list(failures)

    async def find(
        self, keys: Sequence[str], requests: AdminRequests, timeout_ms: float
    ) -> Answers[str, int]:
        if self._failures:
            raise self._failures.pop(0)
        answers: Answers[str, int] = Answers("Find", self.what)
        for key in keys:
            self.looks[key] = self.looks.get(key, 0) + 1
            answers.succeed(key, self.looks[key])
        return answers


class Asked:
    """Answers by a script, and keeps what was asked."""

    def __init__(self, script: Script) -> None:
        self.requests: list[tuple[int, list[str]]] = []
        self._script = script

    async def __call__(
        self, node: int, keys: list[str], limit_ms: float, answers: Answers[str, int]
    ) -> None:
        self.requests.append((node, list(keys)))
        times = {key: sum(key in some for _, some in self.requests) for key in keys}
        for key in keys:
            answers.complete(key, node, self._script(node, key, times[key]))


def calls(**options: object) -> AdminRequests:
    settings = {
        "bootstrap_servers": "127.0.0.1:1",
        "retry_backoff_ms": 1,
        "retry_backoff_max_ms": 2,
        **options,
    }
    config = read_client_config(AdminConfig, None, settings)
    return AdminRequests(cast(Network, NoNetwork()), config, check_open=lambda: None)


def ask(
    script: Any,
    keys: Sequence[str] = ("a", "b"),
    place: Places | None = None,
    timeout: float = 5.0,
    **options: object,
) -> Mapping[str, int]:
    there = place or Places(AT_COORDINATOR)
    return asyncio.run(calls(**options).ask_by(keys, there, "Asked", script, timeout))


def test_things_are_asked_of_their_node_in_one_request() -> None:
    asked = Asked(lambda node, key, times: NONE)
    assert ask(asked, ["b", "a", "b"]) == {"b": 1, "a": 1}
    assert asked.requests == [(1, ["b", "a"])]


def test_what_may_pass_is_asked_again_of_the_same_node_alone() -> None:
    asked = Asked(
        lambda node, key, times: (
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if key == "b" and times < 3 else NONE
        )
    )
    place = Places(AT_COORDINATOR)
    assert ask(asked, place=place) == {"a": 1, "b": 1}
    assert asked.requests == [(1, ["a", "b"]), (1, ["b"]), (1, ["b"])]
    assert place.looks == {"a": 1, "b": 1}


@pytest.mark.parametrize(
    ("meanings", "code"),
    [
        (AT_COORDINATOR, ErrorCode.NOT_COORDINATOR),
        (AT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (AT_CONTROLLER, ErrorCode.NOT_CONTROLLER),
        (AT_LEADER, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (AT_LEADER, ErrorCode.LEADER_NOT_AVAILABLE),
        (AT_LEADER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_what_has_moved_is_looked_up_and_asked_elsewhere(
    meanings: ErrorMeanings, code: ErrorCode
) -> None:
    asked = Asked(lambda node, key, times: code if key == "a" and node == 1 else NONE)
    place = Places(meanings)
    assert ask(asked, place=place) == {"a": 2, "b": 1}
    assert place.looks == {"a": 2, "b": 1}


def test_other_errors_are_the_answer() -> None:
    asked = Asked(lambda node, key, times: ErrorCode.GROUP_ID_NOT_FOUND if key == "a" else NONE)
    with pytest.raises(PartialFailureError) as error:
        ask(asked)
    assert error.value.results == {"b": 1}
    assert error.value.errors["a"].context == {"api": "Asked", "broker": "node 1", "thing": "a"}
    assert len(asked.requests) == 1
    with pytest.raises(KafkaError) as single:
        ask(asked, ["a"])
    assert single.value.code is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_connection_that_breaks_is_another_look_and_another_try() -> None:
    async def broken(node: int, keys: list[str], limit_ms: float, answers: Any) -> None:
        if node == 1:
            raise exception_for(ErrorCode.NETWORK_EXCEPTION)
        for key in keys:
            answers.succeed(key, node)

    assert ask(broken) == {"a": 2, "b": 2}


def test_what_a_request_said_before_it_broke_is_kept() -> None:
    async def broken(node: int, keys: list[str], limit_ms: float, answers: Any) -> None:
        answers.succeed(keys[0], node)
        if len(keys) > 1:
            raise exception_for(ErrorCode.NETWORK_EXCEPTION)

    assert ask(broken) == {"a": 1, "b": 2}


def test_an_error_of_the_request_that_does_not_pass_is_everybodys() -> None:
    async def refused(node: int, keys: list[str], limit_ms: float, answers: Any) -> None:
        raise exception_for(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    with pytest.raises(PartialFailureError) as error:
        ask(refused)
    assert set(error.value.errors) == {"a", "b"}


def test_a_look_that_fails_is_repeated() -> None:
    asked = Asked(lambda node, key, times: NONE)
    failure = exception_for(ErrorCode.NETWORK_EXCEPTION)
    assert ask(asked, place=Places(AT_COORDINATOR, [failure, failure])) == {"a": 1, "b": 1}


def test_when_the_time_is_over_the_last_error_is_told_and_results_are_kept() -> None:
    asked = Asked(
        lambda node, key, times: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if key == "a" else NONE
    )
    with pytest.raises(PartialFailureError) as error:
        ask(asked, timeout=0.5)
    assert error.value.results == {"b": 1}
    late = error.value.errors["a"]
    assert isinstance(late, TimedOutError)
    assert "COORDINATOR_LOAD_IN_PROGRESS" in str(late)
    assert isinstance(late.__cause__, KafkaError)
    assert late.context == {"api": "Asked", "thing": "a"}


def test_an_answer_tells_more_than_the_end_of_the_time() -> None:
    times = 0

    async def silent_at_last(node: int, keys: list[str], limit_ms: float, answers: Any) -> None:
        nonlocal times
        times += 1
        if times > 1:
            await asyncio.Event().wait()
        answers.fail("a", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    with pytest.raises(TimedOutError, match="COORDINATOR_LOAD_IN_PROGRESS"):
        ask(silent_at_last, ["a"], timeout=0.5)
    assert times == 2


def test_retries_are_a_limit_too() -> None:
    asked = Asked(lambda node, key, times: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    with pytest.raises(TimedOutError, match="3 attempts"):
        ask(asked, ["a"], retries=2)
    assert len(asked.requests) == 3


def test_a_node_that_does_not_answer_costs_only_its_own_things() -> None:
    class Apart(Places):
        async def find(
            self, keys: Sequence[str], requests: AdminRequests, timeout_ms: float
        ) -> Answers[str, int]:
            answers: Answers[str, int] = Answers("Find", self.what)
            for key in keys:
                answers.succeed(key, ord(key))
            return answers

    async def silent(node: int, keys: list[str], limit_ms: float, answers: Any) -> None:
        if node == ord("a"):
            await asyncio.Event().wait()
        for key in keys:
            answers.succeed(key, node)

    with pytest.raises(PartialFailureError) as error:
        ask(silent, place=Apart(AT_COORDINATOR), timeout=0.5)
    assert error.value.results == {"b": ord("b")}
    assert isinstance(error.value.errors["a"], TimedOutError)


def test_an_answer_that_leaves_something_out_is_an_error() -> None:
    async def forgetful(node: int, keys: list[str], limit_ms: float, answers: Any) -> None:
        answers.succeed("a", node)

    with pytest.raises(PartialFailureError) as error:
        ask(forgetful)
    assert error.value.errors["b"].code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert "does not mention it" in str(error.value)


def test_a_quota_is_waited_for_as_long_as_the_broker_says() -> None:
    waited: list[float] = []

    async def throttled(node: int, keys: list[str], limit_ms: float, answers: Any) -> None:
        waited.append(asyncio.get_running_loop().time())
        code = ErrorCode.THROTTLING_QUOTA_EXCEEDED if len(waited) == 1 else NONE
        answers.throttle_ms = 40 if code else 0
        for key in keys:
            answers.complete(key, node, code)

    assert ask(throttled, ["a"], Places(AT_CONTROLLER)) == {"a": 1}
    assert waited[1] - waited[0] >= 0.039


def test_nothing_is_asked_about_nothing() -> None:
    asked = Asked(lambda node, key, times: NONE)
    assert ask(asked, []) == {}
    assert asked.requests == []


def test_every_code_that_may_pass_is_asked_again_at_a_leader() -> None:
    for code in ErrorCode:
        meaning = AT_LEADER.get(code, ErrorMeaning.FAIL)
        assert (meaning is not ErrorMeaning.FAIL) == (
            code.retriable or code is ErrorCode.BROKER_NOT_AVAILABLE
        ), code.name


def test_things_that_an_answer_names_besides_are_not_asked_about() -> None:
    """DeleteTopics answers with the id of a topic that was given by name."""
    requests: list[list[str]] = []

    async def talkative(node: int, keys: list[str], limit_ms: float, answers: Any) -> None:
        requests.append(list(keys))
        code = ErrorCode.NOT_COORDINATOR if len(requests) == 1 else NONE
        for key in ("a", "other name of a"):
            answers.complete(key, node, code)

    assert ask(talkative, ["a"]) == {"a": 2}
    assert requests == [["a"], ["a"]]
