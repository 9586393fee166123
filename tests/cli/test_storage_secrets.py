"""`--storage` and `--objects` with a secret in the URL: the user is warned, and the secret is not repeated."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from ottla.cli.main import main
from ottla.storage.shared.storage_urls import variables_of_shown_secrets

SECRET = "geheim"
# A connection to the port 1 is refused.
SHOWN = f"postgresql://me:{SECRET}@127.0.0.1:1/ottla"
BUCKET = f"s3://bucket?access_key_id=me&secret_access_key={SECRET}"
COMMANDS = (["serve", "--listen", "127.0.0.1:0"], ["storage", "check"])


@pytest.fixture(autouse=True)
def own_log() -> Iterator[None]:
    log = logging.getLogger()
    handlers, level = list(log.handlers), log.level
    yield
    # `ottla serve` in this process logs to a stream that ends with the test.
    log.handlers[:] = handlers
    log.setLevel(level)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_secret_on_the_command_line_is_warned_of(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--storage", SHOWN, "--objects", BUCKET]) != 0
    told = capsys.readouterr().err
    assert "give --storage @FILE, or set OTTLA_STORAGE" in told
    assert "give --objects @FILE, or set OTTLA_OBJECTS" in told
    assert SECRET not in told


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_secret_in_the_environment_is_not_warned_of(
    command: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTTLA_STORAGE", SHOWN)
    assert main(command) != 0
    told = capsys.readouterr().err
    assert "where others on this machine" not in told
    assert SECRET not in told


def test_urls_without_secrets_and_files_are_no_secrets() -> None:
    assert variables_of_shown_secrets("@file", "@other") == {}
    assert variables_of_shown_secrets("postgresql://me@db/ottla", "s3://bucket") == {}
    assert variables_of_shown_secrets(None, None) == {}
