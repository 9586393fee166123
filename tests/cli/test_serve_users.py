"""`ottla serve --user`: passwords become credentials, survive a kill, and are seen nowhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.broker.processes import ServeProcess
from tests.broker.security.handshakes import connected, scram_of

from ottla.cli.serve import passwords_of
from ottla.errors import ConfigError

SECRET = "a-password-in-a-file"
SHOWN = "a-password-on-the-command-line"
_ADDRESS = re.compile(r"listener SASL_PLAINTEXT \(SASL_PLAINTEXT\) on (\S+)")


def sasl_address(process: ServeProcess) -> str:
    return str(_ADDRESS.findall(process.log)[-1])


def gets_in(address: str, user: str, password: str, mechanism: str = "SCRAM-SHA-512") -> bool:
    with connected(address) as peer:
        peer.handshake(mechanism)
        peer.log_in(scram_of(mechanism, user, password))
        return peer.lines[-1].startswith("< error 0")


def test_users_of_the_command_line_survive_a_kill_and_are_not_logged(tmp_path: Path) -> None:
    listen = ("--listen", "SASL_PLAINTEXT://127.0.0.1:0", "--log-level", "debug")
    file = tmp_path / "password"
    file.write_text(f"{SECRET}\n")
    process = ServeProcess(tmp_path)
    try:
        process.start(*listen, "--user", f"alice:@{file}", "--user", f"bob:{SHOWN}")
        assert gets_in(sasl_address(process), "alice", SECRET)
        assert gets_in(sasl_address(process), "bob", SHOWN, "SCRAM-SHA-256")
        process.kill()
        process.start(*listen)
        assert gets_in(sasl_address(process), "alice", SECRET, "SCRAM-SHA-256")
        assert not gets_in(sasl_address(process), "bob", SECRET)
        assert process.stop() == 0
        before = process.log.count("user_credential_changed") + process.log.count("is set")
        process.start(*listen, "--user", f"alice:@{file}", "--user", "bob:another")
        assert gets_in(sasl_address(process), "bob", "another")
        after = process.log.count("user_credential_changed") + process.log.count("is set")
        # Both mechanisms of bob's; alice's password fits.
        assert after - before == 2
        assert process.stop() == 0
    finally:
        process.kill()
    assert "the password of user bob is on the command line" in process.log
    assert "the password of user alice" not in process.log
    assert "--user bob:@FILE" in process.log
    assert SECRET not in process.log
    assert SHOWN not in process.log
    assert "another" not in process.log.replace("another reason", "")
    stored = b"".join(path.read_bytes() for path in process.data.rglob("*") if path.is_file())
    assert SECRET.encode() not in stored
    assert SHOWN.encode() not in stored


def test_passwords_are_given_or_in_files(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_bytes("pa:ss wörd\r\nmore\n".encode())
    assert passwords_of(["a:b:c", f"d:@{file}", "e: "]) == {
        "a": "b:c",
        "d": "pa:ss wörd",
        "e": " ",
    }


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["alice"], "--user alice has no password"),
        (["alice:"], "--user alice has no password"),
        ([":secret"], "--user has no name"),
        (["alice:a", "alice:b"], "given twice"),
        (["alice:@/nowhere/at/all"], "cannot be read"),
        (["alice:@/dev/null"], "begins with no password"),
    ],
)
def test_what_is_no_user_is_refused_without_showing_a_password(texts: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=said) as refusal:
        passwords_of(texts)
    assert "secret" not in str(refusal.value)
