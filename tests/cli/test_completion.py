"""`ottla completion`: what comes next on a line, asked by real shells."""

from __future__ import annotations

import os
import select
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
from tests.cli.conftest import Ottla
from tests.waiting import in_time

from ottla import Broker, Consumer
from ottla.cli.commands.syntax import Arguments
from ottla.cli.completion import candidates as completion
from ottla.cli.completion import cluster_names
from ottla.cli.completion.candidates import candidates, split_line
from ottla.cli.completion.scripts import SCRIPTS

ANSWER_SECONDS = 30.0
PRESS_AGAIN_SECONDS = 6.0
CLEAR_LINE = "\x15"
# Commands without verbs.
ALONE = {"console", "serve", "produce", "consume", "offsets", "test-broker", "demo", "completion"}


class Names:
    """Answers for the cluster, and remembers what it was asked."""

    def __init__(self, *names: str) -> None:
        self.names = [*names]
        self.kinds: list[str] = []
        self.connections: list[Arguments] = []

    def find(self, kind: str, connection: Arguments) -> list[str]:
        self.kinds.append(kind)
        self.connections.append(connection)
        return self.names


def words_after(*words: str) -> list[str]:
    return [each.value for each in candidates(words)]


def test_commands_verbs_flags_and_choices_come_from_the_parser() -> None:
    assert {"serve", "topics", "completion"} <= set(words_after(""))
    assert words_after("topics", "") == ["create", "list", "describe", "alter", "delete"]
    flags = words_after("topics", "create", "x", "-")
    assert {"--partitions", "-p", "--bootstrap-server", "--help"} <= set(flags)
    assert words_after("topics", "create", "x", "--part") == ["--partitions"]
    assert words_after("topics", "list", "-o", "") == ["table", "json", "yaml"]
    assert words_after("topics", "list", "--output=") == [
        "--output=table",
        "--output=json",
        "--output=yaml",
    ]
    assert words_after("completion", "") == ["bash", "zsh", "fish"]
    assert words_after("nonsense", "") == []
    assert words_after("topics", "nonsense", "") == []


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (["topics", "describe", ""], "TOPIC"),
        (["topics", "describe", "--if-exists", "one", "two", ""], "TOPIC"),
        (["topics", "describe", "--", "--o"], "TOPIC"),
        (["configs", "describe", "--topic", ""], "TOPIC"),
        (["configs", "describe", "--topic="], "TOPIC"),
        (["configs", "describe", "--group", ""], "GROUP"),
        (["topics", "list", "--command-config", ""], "FILE"),
        (["topics", "list", "--timeout", ""], None),
        (["topics", "list", "--watch", ""], "TOPIC"),
        (["cluster", "brokers", ""], None),
    ],
)
def test_what_kind_of_name_comes_next_is_known(
    monkeypatch: pytest.MonkeyPatch, words: list[str], kind: str | None
) -> None:
    asked = Names()
    monkeypatch.setattr(cluster_names, "find", asked.find)
    found = candidates(words)
    if kind == "FILE":
        assert ([each.type for each in found], asked.kinds) == (["file"], [])
    else:
        assert (found, asked.kinds) == ([], [] if kind is None else [kind])


def test_every_command_can_be_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the parameters of other commands are, asking what comes next does not fail."""
    monkeypatch.setattr(cluster_names, "find", Names().find)
    for command in words_after(""):
        verbs = [] if command in ALONE else words_after(command, "")
        assert verbs or command in ALONE
        for words in [[command], *([command, verb] for verb in verbs)]:
            assert "--help" in words_after(*words, "-")
            words_after(*words, "")


@pytest.mark.parametrize("where", ["-b there:9092", "-b=there:9092", "--boot there:9092"])
def test_the_line_says_where_the_broker_is(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    asked = Names("t")
    monkeypatch.setattr(cluster_names, "find", asked.find)
    options = [*where.split(), "-X", "client.id=me", "-Xlinger.ms=1"]
    assert words_after("topics", "describe", *options, "") == ["t"]
    assert asked.connections[0].bootstrap_server == "there:9092"
    assert asked.connections[0].client_options == ["client.id=me", "linger.ms=1"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ottla top", ["ottla", "top"]),
        ("ottla topics ", ["ottla", "topics", ""]),
        ("ottla topics describe 'a b", ["ottla", "topics", "describe", "a b"]),
        ('ottla -b "h:1', ["ottla", "-b", "h:1"]),
    ],
)
def test_a_line_is_split_as_shells_do(line: str, words: list[str]) -> None:
    assert split_line(line) == words


def test_names_are_those_of_the_broker(
    inside: Ottla, cli_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The alarm would end this very process.
    monkeypatch.setattr(completion, "_time_limit", nullcontext)
    monkeypatch.setattr(cluster_names, "TIMEOUT_SECONDS", 30.0)
    inside("topics", "create", "complete-me", "complete-me-too", "other")
    options = {"group.id": "my group", "bootstrap.servers": cli_broker.bootstrap_servers}
    with Consumer(options) as consumer:
        consumer.assign([("other", 0)])
        consumer.commit({("other", 0): 0})
    topics = inside("completion", "candidates", "ottla", "topics", "describe", "complete")
    assert topics.lines == ["complete-me\t", "complete-me-too\t"]
    groups = inside("completion", "candidates", "ottla", "configs", "describe", "--group", "my")
    assert groups.lines == ["my group\t"]
    nobody = ("-b", "127.0.0.1:1")
    none = inside("completion", "candidates", "ottla", "topics", "describe", *nobody, "complete")
    assert (none.code, none.out, none.err) == (0, "", "")


def test_a_broker_that_does_not_answer_is_not_waited_for(ottla: Ottla) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = f"127.0.0.1:{silent.getsockname()[1]}"
        # As long as a client of the same options would wait.
        line = ("ottla", "topics", "describe", "-b", where, "-X", "default.api.timeout.ms=50000")
        began = time.monotonic()
        done = ottla("completion", "candidates", *line, "x")
        assert (done.code, done.out, done.err) == (0, "", "")
        assert time.monotonic() - began < ANSWER_SECONDS


# -- in shells


@pytest.fixture
def shell_variables(tmp_path: Path, cli_broker: Broker) -> dict[str, str]:
    """For a shell that finds the command."""
    command = tmp_path / "bin" / "ottla"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ottla "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    (tmp_path / "my.properties").touch()
    for shell, script in SCRIPTS.items():
        (tmp_path / f"ottla.{shell}").write_text(script, encoding="utf-8")
    return {
        **os.environ,
        "PATH": f"{command.parent}:{os.environ['PATH']}",
        "PYTHONPATH": ":".join(sys.path),
        "OTTLA_BOOTSTRAP_SERVER": cli_broker.bootstrap_servers,
        "HOME": str(tmp_path),
        "TERM": "dumb",
    }


class Screen:
    """A shell on a terminal of its own."""

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal
        self._seen = b""

    def type(self, text: str) -> None:
        self._seen = b""
        os.write(self._terminal, text.encode())

    def wait_for(self, text: str) -> None:
        assert self._comes(text, ANSWER_SECONDS), self._seen

    def complete(self, line: str, expected: str) -> None:
        """Type a line and the key; once more where nothing comes of it, since a slow broker is not waited for."""
        until = time.monotonic() + ANSWER_SECONDS
        self.type(f"{line}\t")
        while not self._comes(expected, PRESS_AGAIN_SECONDS):
            in_time(until, self._seen)
            self.type(f"{CLEAR_LINE}{line}\t")
        self.type(CLEAR_LINE)

    def _comes(self, text: str, seconds: float) -> bool:
        until = time.monotonic() + seconds
        while text.encode() not in self._seen:
            left = until - time.monotonic()
            if left <= 0:
                return False
            # Unlike select, it takes file numbers of any size: brokers of other tests have many files open.
            ready = select.poll()
            ready.register(self._terminal, select.POLLIN)
            if ready.poll(left * 1000):
                self._seen += os.read(self._terminal, 65536)
        return True


@contextmanager
def screen(command: list[str], folder: Path, variables: dict[str, str]) -> Iterator[Screen]:
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        command,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=folder,
        env=variables,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        yield Screen(ours)
    finally:
        process.kill()
        process.wait()
        os.close(ours)


# What is typed before the key, and what stands there after it.
LINES = [
    ("ottla topics cre", "ottla topics create "),
    ("ottla topics describe -b {servers} zeb", "zebra-crossing "),
    ("ottla topics list --output=js", "--output=json "),
    ("ottla topics list --command-config my", "my.properties "),
]

SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "source ./ottla.bash"),
    "zsh": (["zsh", "-f", "-i"], "autoload -U compinit; compinit -u -D; source ./ottla.zsh"),
}


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_completes_what_is_typed(
    shell: str, inside: Ottla, cli_broker: Broker, tmp_path: Path, shell_variables: dict[str, str]
) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    inside("topics", "create", "zebra-crossing", "--if-not-exists")
    command, setup = SHELLS[shell]
    with screen(command, tmp_path, shell_variables) as terminal:
        terminal.type(f"{setup}; PS1='is''-ready '\n")
        terminal.wait_for("is-ready ")
        for typed, expected in LINES:
            terminal.complete(typed.format(servers=cli_broker.bootstrap_servers), expected)


def test_fish_completes_what_is_typed(
    inside: Ottla, tmp_path: Path, shell_variables: dict[str, str]
) -> None:
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed")
    inside("topics", "create", "zebra-crossing", "--if-not-exists")
    lines = ["ottla topics cre", "ottla topics describe zeb", "ottla topics list --output=js"]
    asked = "; ".join(f"complete -C '{line}'" for line in lines)
    expected = ["create\tcreate topics", "zebra-crossing", "--output=json"]
    until = time.monotonic() + ANSWER_SECONDS
    while True:
        done = subprocess.run(
            ["fish", "-N", "-c", f"source ottla.fish; {asked}"],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=shell_variables,
            timeout=ANSWER_SECONDS,
            check=False,
        )
        # A broker that is slow is not waited for, and its names are missing.
        if done.stdout.splitlines() == expected or time.monotonic() > until:
            break
    assert done.stdout.splitlines() == expected


def test_the_scripts_are_printed(ottla: Ottla, inside: Ottla) -> None:
    assert ottla("completion", "bash").out == SCRIPTS["bash"]
    assert inside("completion", "zsh").out == SCRIPTS["zsh"]
    assert inside("completion", "fish").out == SCRIPTS["fish"]
    assert inside("completion", "tcsh").code == 2
