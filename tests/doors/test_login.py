"""Who may come in: users and tokens, of a mapping or of a file that changes."""

from __future__ import annotations

import base64
import logging
from pathlib import Path

import pytest

from ottla.doors.login import Accounts, LoginFile
from ottla.errors import ConfigError


def basic(name: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


@pytest.mark.parametrize(
    ("authorization", "is_admitted"),
    [
        (basic("alice", "open:sesame"), True),
        (basic("alice", "open:sesame").replace("Basic", "bAsIc"), True),
        ("Bearer a-long-token", True),
        (None, False),
        ("", False),
        ("Basic", False),
        ("Basic !!!", False),
        ("Basic //8=", False),
        (basic("alice", ""), False),
        (basic("alice", "open"), False),
        (basic("bob", "open:sesame"), False),
        (basic("", ""), False),
        ("Bearer", False),
        ("Bearer ", False),
        ("Bearer a-long-toke", False),
        ("Bearer a-long-token2", False),
        ("Digest alice", False),
    ],
)
def test_only_a_right_password_or_token_comes_in(
    login_file: Path, authorization: str | None, is_admitted: bool
) -> None:
    assert LoginFile(login_file).admits(authorization) is is_admitted


def test_a_changed_file_counts_at_once(login_file: Path, caplog: pytest.LogCaptureFixture) -> None:
    login = LoginFile(login_file)
    login_file.write_text("bob:secret-word\n")
    with caplog.at_level(logging.INFO):
        assert login.admits(basic("bob", "secret-word"))
        assert not login.admits("Bearer a-long-token")
    # What cannot be read changes nothing, and is told once.
    login_file.write_text("nothing\nis:\n")
    caplog.clear()
    for _ in range(3):
        assert login.admits(basic("bob", "secret-word"))
    login_file.unlink()
    for _ in range(3):
        assert login.admits(basic("bob", "secret-word"))
    assert len(caplog.records) == 2
    assert "secret-word" not in caplog.text
    login_file.write_text("carol:c\n")
    assert login.admits(basic("carol", "c"))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "has no user and no token"),
        ("# a comment\n", "has no user and no token"),
        ("alice:\n", "line 1: write NAME:PASSWORD"),
        ("a-token\n:word\n", "line 2: write NAME:PASSWORD"),
        ("a:x\nb:y\na:z\n", "line 3: the user a is there twice"),
    ],
)
def test_a_file_with_a_mistake_is_refused_with_its_line(
    tmp_path: Path, text: str, problem: str
) -> None:
    file = tmp_path / "login"
    file.write_text(text)
    with pytest.raises(ConfigError, match=problem):
        LoginFile(file)
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        LoginFile(tmp_path / "missing")


def test_secrets_are_not_shown(login_file: Path) -> None:
    shown = repr(LoginFile(login_file)) + repr(Accounts({"alice": "sesame"}, ["a-long-token"]))
    assert "sesame" not in shown
    assert "token'" not in shown
