"""`ottla quotas`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.cli.conftest import Ottla, soon


def test_quotas_are_set_listed_and_removed(
    inside_anywhere: Ottla, ottla_topic_name: Callable[[], str]
) -> None:
    run, user = inside_anywhere, ottla_topic_name()
    both = ("--user", user, "--default-client-id")
    done = run(
        "quotas", "set", "--user", user, "producer_byte_rate=1048576", "request_percentage=7.5"
    )
    assert (
        done.out
        == f"quotas of user {user} set: producer_byte_rate=1048576, request_percentage=7.5\n"
    )
    assert run("quotas", "set", *both, "consumer_byte_rate=2048").code == 0
    assert run("quotas", "set", *both, "consumer_byte_rate=1", "--dry-run").out == (
        f"quotas of user {user}, default client-id would be set: consumer_byte_rate=1\n"
    )

    def listed(*words: str) -> list[tuple[Any, ...]]:
        rows = run("quotas", "list", "--user", user, *words, "-o", "json").data
        return [(row["client_id"], row["quota"], row["value"]) for row in rows]

    mine = [(None, "producer_byte_rate", 1048576), (None, "request_percentage", 7.5)]
    others = [("(default)", "consumer_byte_rate", 2048)]

    def are_listed(*expected: tuple[Any, ...]) -> None:
        assert listed() == [*expected]

    soon(lambda: are_listed(*mine, *others))
    assert listed("--strict") == mine
    row = run("quotas", "list", "--user", user, "--strict").table[0]
    assert (row["USER"], row["CLIENT-ID"], row["IP"]) == (user, "-", "-")
    assert run("quotas", "remove", "--user", user, "producer_byte_rate").code == 0
    soon(lambda: are_listed(mine[1], *others))
    again = run("quotas", "remove", "--user", user, "producer_byte_rate")
    assert again.code == 1
    assert again.err == (
        f"ottla: producer_byte_rate is not set for user {user}: "
        "`ottla quotas list` shows which there are\n"
    )
    assert run("quotas", "remove", *both, "--all").code == 0
    assert run("quotas", "remove", "--user", user, "--all").code == 0
    soon(are_listed)
    assert run("quotas", "list", "--user", user).err == "there are no such quotas\n"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["set", "producer_byte_rate=1"], "for whom?"),
        (["set", "--user", "a"], "nothing to set"),
        (["set", "--user", "a", "producer_rate=1"], "'producer_rate' is none of"),
        (["set", "--user", "a", "producer_byte_rate=fast"], "'fast' is not a number above 0"),
        (["set", "--user", "a", "--default-user", "request_percentage=1"], "exclude each other"),
        (["set", "--user", "a", "--ip", "::1", "request_percentage=1"], "give --ip alone"),
        (
            ["set", "--ip", "::1", "producer_byte_rate=1"],
            "producer_byte_rate is no quota of ip ::1",
        ),
        (["set", "--user", "a", "connection_creation_rate=1"], "is the one of addresses"),
        (["remove", "--user", "a"], "which quotas?"),
        (["list", "--strict"], "--strict needs to know whom"),
    ],
)
def test_what_makes_no_sense_is_refused(inside: Ottla, words: list[str], expected: str) -> None:
    done = inside("quotas", *words)
    assert (done.code, done.out) == (2, "")
    assert expected in done.err.splitlines()[-1]
