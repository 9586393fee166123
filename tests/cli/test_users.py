"""`ottla users`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import Ottla, Result, soon

from ottla.cli.terminal.questions import new_password

PASSWORD = "open, sesame"


def rows_of(done: Result) -> list[tuple[str, str, str]]:
    assert done.code == 0, done.err
    return [(row["USER"], row["MECHANISM"], row["ITERATIONS"]) for row in done.table]


def test_users_are_created_shown_changed_and_deleted(
    inside_anywhere: Ottla, ottla_topic_name: Callable[[], str], tmp_path: Path
) -> None:
    anywhere, name = inside_anywhere, ottla_topic_name()
    (tmp_path / "password").write_text(PASSWORD + "\n", encoding="utf-8")
    created = anywhere("users", "create", name, "--password", "@password")
    assert created.out == f"user {name} created: SCRAM-SHA-256, SCRAM-SHA-512\n", created.err
    both = [(name, "SCRAM-SHA-256", "4096"), (name, "SCRAM-SHA-512", "4096")]

    def is_described(*expected: tuple[str, str, str]) -> None:
        assert rows_of(anywhere("users", "describe", name)) == [*expected]

    soon(lambda: is_described(*both))
    again = anywhere("users", "create", name, "--password", "@password")
    assert again.code == 1
    assert again.err == (
        f"ottla: user {name} exists already: `ottla users passwd` changes the password\n"
    )
    words = ("--mechanism", "SCRAM-SHA-512", "--iterations", "5000")
    changed = anywhere("users", "passwd", name, *words, stdin="another\n")
    assert changed.out == f"password of user {name} changed: SCRAM-SHA-512\n", changed.err
    soon(lambda: is_described(both[0], (name, "SCRAM-SHA-512", "5000")))
    one = anywhere("users", "delete", name, "--mechanism", "SCRAM-SHA-256")
    assert one.out == f"user {name} deleted: SCRAM-SHA-256\n", one.err
    soon(lambda: is_described((name, "SCRAM-SHA-512", "5000")))
    assert anywhere("users", "delete", name, "--dry-run").out == (
        f"user {name} would be deleted: SCRAM-SHA-512\n"
    )
    assert anywhere("users", "delete", name).code == 0
    listed = soon(lambda: is_gone(anywhere("users", "list", "-o", "json"), name))
    for done in (created, again, changed, one, listed):
        assert PASSWORD not in done.out + done.err


def is_gone(done: Result, name: str) -> Result:
    assert name not in done.out, done.err
    return done


def test_users_that_do_not_exist_are_told_in_one_line(inside: Ottla) -> None:
    advice = "`ottla users list` shows which there are"
    for words in (["describe", "ghost"], ["delete", "ghost"], ["passwd", "ghost"]):
        done = inside("users", *words, stdin="secret\n")
        assert (done.code, done.out) == (1, ""), words
        assert done.err == f"ottla: there is no user ghost: {advice}\n"
    assert inside("users", "delete", "ghost", "--if-exists").code == 0


@pytest.mark.parametrize(
    ("words", "stdin", "expected"),
    [
        (["--password", "secret"], "", "a password on the command line is seen by others"),
        (["--password", "@missing"], "", "missing: No such file or directory"),
        (["--password", "@-"], "", "the password in stdin is empty"),
        (["--password", "@two"], "", "two has more than one line"),
        (["--iterations", "100"], "secret", "from 4096 to 16384"),
        (["--mechanism", "PLAIN"], "secret", "'PLAIN' is none of SCRAM-SHA-256"),
    ],
)
def test_what_cannot_be_a_password_is_refused(
    inside: Ottla, tmp_path: Path, words: list[str], stdin: str, expected: str
) -> None:
    (tmp_path / "two").write_text("one\ntwo\n", encoding="utf-8")
    done = inside("users", "create", "nobody", *words, stdin=stdin)
    assert done.code in (1, 2)
    assert done.out == ""
    assert expected in done.err.splitlines()[-1]
    assert "nobody" not in inside("users", "list").out


def test_a_terminal_is_asked_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = ["secret", "secret", "secret", "other", ""]

    class Terminal:
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("getpass.getpass", lambda prompt: answers.pop(0))
    assert new_password("alice", None) == "secret"
    with pytest.raises(Exception, match="two passwords differ"):
        new_password("alice", None)
    with pytest.raises(Exception, match="password is empty"):
        new_password("alice", None)
