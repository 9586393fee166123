"""How `ottla` takes what people type, and how it ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest
from tests.cli.conftest import Ottla
from tests.cli.processor_time import assert_cheap

from ottla import Admin, Broker
from ottla.admin import NewTopic
from ottla.cli import main as command
from ottla.cli.commands.root import ROOT, parse
from ottla.cli.commands.syntax import Arguments, Command
from ottla.cli.errors import line_of
from ottla.cli.main import main
from ottla.errors import ErrorCode, KafkaError

HELP_SECONDS = 0.15


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The last line of what is told about wrong usage."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("usage: ottla")
    return told.err.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("topic", "ottla: there is no command 'topic': did you mean topics?"),
        ("xyzzy", "ottla: there is no command 'xyzzy': there are serve, topics"),
        ("topics lst", "ottla topics: there is no verb 'lst': did you mean list?"),
        ("serve --lisen h:1", "ottla serve: there is no --lisen here: did you mean --listen?"),
        ("serve --port 9092", "there is no --port here: write --listen HOST:PORT, as in --listen"),
        ("serve --host=h", "there is no --host here: write --listen HOST:PORT, as in --listen"),
        ("serve --log-dirs d", "there is no --log-dirs here: write --data DIR"),
        ("topics list --bootstrap-servers h:1", "did you mean --bootstrap-server?"),
        ("topics list --frobnicate=1", "ottla topics list: there is no --frobnicate here ("),
        ("topics list -o yml", "'yml' is none of table, json, yaml"),
        ("serve here", "ottla serve: 'here' is more than this command takes"),
        ("help topcis", "did you mean topics?"),
        ("completion", "are required: bash|zsh|fish ("),
        ("completion tcsh", "'tcsh' is none of bash, zsh, fish ("),
        ("topics create x -p abc", "'abc' is not a whole number"),
        ("groups reset", "did you mean reset-offsets?"),
        ("-b h:1 topics list", "-b belongs behind the verb: ottla topics list -b …"),
        ("--bootstrap-server=h:1 consume x", "verb: ottla consume --bootstrap-server …"),
        ("cluster -b h:1 describe", "-b belongs behind the verb: ottla cluster describe -b …"),
        ("topics --create --topic x", "write `ottla topics create`, without dashes"),
        ("topics --topic x --create", "write `ottla topics create`, without dashes"),
        ("topics --bootstrap-server h:1 --list", "ottla topics list --bootstrap-server …"),
        ("topics", "ottla topics: what shall it do? there are create, list, describe"),
        ("topics list --topic --names", "--topic needs a value, and --names is an option"),
        ("topics list -o", "option '-o' requires an argument"),
        ("topics list --names=1", "option '--names' does not take a value"),
        ("groups reset-offsets g --to x", "--to could be --topic, --to-earliest, --to-latest"),
        ("consume x --exit --follow", "--follow and --exit exclude each other"),
        ("topics describe --unavailable-partitions --topics-with-overrides", "exclude each other"),
        ("log dump f --decode --offsets-decoder", "exclude each other"),
        ("perf produce x --record-size 1 --payload-monotonic", "exclude each other"),
        ("groups reset-offsets g --topic x", "one of these is required: --to-earliest, "),
        ("perf consume x", "are required: --messages/--num-records ("),
    ],
)
def test_a_misspelt_word_is_answered_with_what_was_meant(
    capsys: pytest.CaptureFixture[str], arguments: str, words: str
) -> None:
    line = refused(capsys, *arguments.split())
    assert words in line
    assert "--help explains)" in line


def commands_of(ctx: click.Context | None = None) -> Iterator[tuple[list[str], click.Context]]:
    """Every command and verb, as it is typed."""
    if ctx is None:
        ctx = click.Context(ROOT, info_name="ottla", **ROOT.context_settings)
    yield ctx.command_path.split()[1:], ctx
    if isinstance(ctx.command, click.Group):
        for name in ctx.command.list_commands(ctx):
            inner = ctx.command.get_command(ctx, name)
            assert inner is not None
            settings = inner.context_settings
            yield from commands_of(click.Context(inner, ctx, info_name=name, **settings))


def test_help_is_the_same_in_either_order(capsys: pytest.CaptureFixture[str]) -> None:
    texts = []
    for arguments in (["help", "topics", "list"], ["topics", "list", "--help"]):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]
    assert texts[0].startswith("usage: ottla topics list")


def test_every_command_explains_itself_with_all_its_arguments(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for words, found in commands_of():
        for way in ("--help", "-h", "--hel"):
            with pytest.raises(SystemExit) as ended:
                main([*words, way])
            text = capsys.readouterr().out
            assert ended.value.code == 0, words
            assert text == found.get_help() + "\n", words
            assert "%(" not in text
            for parameter in found.command.params:
                shown = parameter.opts[-1] if isinstance(parameter, click.Option) else ""
                assert getattr(parameter, "hidden", False) or shown in text, words


def test_every_command_has_a_description_and_every_option_a_help() -> None:
    lacking = []
    for words, found in commands_of():
        if not getattr(found.command, "description", ""):
            lacking.append(" ".join(words))
        lacking += [
            f"{' '.join(words)}: {parameter.name}"
            for parameter in found.command.params
            if isinstance(parameter, click.Option) and not parameter.help
        ]
    assert lacking == []


def test_every_command_that_does_something_names_a_function() -> None:
    for words, found in commands_of():
        if not isinstance(found.command, click.Group):
            assert isinstance(found.command, Command), words
            assert callable(command._load(found.command.work)), words


def test_a_bug_is_one_line_and_with_v_a_trace(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(arguments: Arguments) -> int:
        raise RuntimeError("oh\nno")

    monkeypatch.setattr(command, "_load", lambda name: fail)
    assert main(["topics", "list"]) == 1
    told = capsys.readouterr().err
    assert told == "ottla: RuntimeError: oh no: this is a bug, -v shows where\n"
    assert main(["topics", "list", "-v"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_an_interrupt_anywhere_is_exit_code_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    for name in ("parse", "_load", "_parse"):
        with monkeypatch.context() as patched:
            patched.setattr(command, name, interrupt)
            assert main(["topics", "list"]) == 130


def test_ctrl_c_ends_a_command_without_a_word(cli_broker: Broker) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "ottla", "topics", "list", "--watch", "1", "-o", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OTTLA_BOOTSTRAP_SERVER": cli_broker.bootstrap_servers},
    )
    assert process.stdout is not None
    assert process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (130, "")


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["topics", "list", "-o", "json"]])
def test_a_reader_that_has_gone_is_exit_code_141(cli_broker: Broker, arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "ottla", *arguments],
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            timeout=30,
            env={**os.environ, "OTTLA_BOOTSTRAP_SERVER": cli_broker.bootstrap_servers},
            check=False,
        )
    finally:
        os.close(writing)
    assert done.returncode == 141
    assert done.stderr == ""


def test_streams_that_are_closed_are_as_good_as_empty(cli_broker: Broker) -> None:
    topic = "closed-streams"
    with Admin(bootstrap_servers=cli_broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(topic)])
    ottla = f"{sys.executable} -m ottla"
    lines = (
        f"{ottla} produce {topic} <&-; echo $? >&2",
        f"{ottla} topics list -o json >&-; echo $? >&2",
        f"{ottla} consume {topic} -e <&- >&- 2>&-; echo $? >&2",
    )
    done = subprocess.run(
        ["bash", "-c", "; ".join(lines)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "OTTLA_BOOTSTRAP_SERVER": cli_broker.bootstrap_servers},
        check=True,
    )
    assert done.stderr.splitlines() == [f"0 records written to {topic}", "0", "0", "0"]


def test_the_timeout_is_also_one_for_the_connection(
    inside: Ottla, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = []

    def unanswered(address: tuple[str, int], timeout: float) -> None:
        limits.append(timeout)
        raise TimeoutError("timed out")

    monkeypatch.setattr(socket, "create_connection", unanswered)
    two = "127.0.0.1:1,127.0.0.1:2"
    assert inside("topics", "list", "-b", two, "--timeout", "20").code == 1
    done = inside("topics", "list", "-b", two)
    assert limits == [10, 10, 3, 3]
    assert done.err.startswith("ottla: no broker can be reached (127.0.0.1:1: timed out; ")


@pytest.mark.parametrize("arguments", [["topics", "list"], ["consume", "x"]])
def test_who_listens_and_says_nothing_is_no_broker(inside: Ottla, arguments: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        there = f"127.0.0.1:{mute.getsockname()[1]}"
        done = inside(*arguments, "--timeout", "2", OTTLA_BOOTSTRAP_SERVER=there)
    assert done.code == 1
    assert "accepts connections but does not answer as a Kafka broker" in done.err


@pytest.mark.parametrize(
    "words",
    [
        "-o json",
        "-ojson",
        "-o=json",
        "--output json",
        "--output=json",
        "--outp json",
        "--outp=json",
    ],
)
def test_an_option_can_be_written_in_several_ways(words: str) -> None:
    assert parse(["topics", "list", *words.split()]).arguments.form == "json"


def test_options_and_names_come_in_any_order() -> None:
    for line in ("produce t -l one two", "produce -l t one two", "produce t one -l two"):
        arguments = parse(line.split()).arguments
        assert (arguments.topic, arguments.files, arguments.lines) == ("t", ["one", "two"], True)


def test_a_shortened_option_needs_to_be_one_option_only() -> None:
    assert parse(["offsets", "--isol", "read_committed"]).arguments.isolation == "read_committed"
    with pytest.raises(click.NoSuchOption):
        parse(["topics", "create", "--re", "1"])


def test_several_values_of_kafkas_options_follow_one_flag() -> None:
    line = "perf produce --producer-props acks=1 linger.ms=0 --topic t -X client.id=me"
    assert parse(line.split()).arguments.client_options == ["client.id=me", "acks=1", "linger.ms=0"]


def test_help_imports_no_command(ottla: Ottla) -> None:
    program = (
        "import sys\nfrom ottla.cli.main import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit: pass\n"
        "print([name for name in sys.modules if name.startswith(('ottla.cli.commands.', 'ottla.client', 'asyncio'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True
    )
    last = done.stdout.splitlines()[-1]
    names = ("options", "syntax", "root")
    assert last == str([f"ottla.cli.commands.{name}" for name in names])


def test_the_version_is_told_by_a_word_too(inside: Ottla) -> None:
    assert inside("version").out == inside("--version").out != ""


def test_help_needs_no_more_than_ascii(ottla: Ottla) -> None:
    done = ottla("configs", "alter", "--help", PYTHONIOENCODING="ascii")
    assert (done.code, done.err) == (0, "")
    assert "examples:" in done.out


def test_help_is_quick(ottla: Ottla) -> None:
    assert_cheap(lambda: ottla("--help").code == 0, HELP_SECONDS, bare_starts=4)


def test_what_the_client_logs_is_shown_with_verbose_only(cli_broker: Broker, ottla: Ottla) -> None:
    # The client begins with any of them, and has nothing to say if that is the good one.
    dead = ",".join(f"127.0.0.1:{port}" for port in range(1, 10))
    servers = f"{dead},{cli_broker.bootstrap_servers}"
    quiet = ottla("topics", "list", "-b", servers)
    assert (quiet.code, quiet.err.replace("there are no topics\n", "")) == (0, "")
    told = "WARNING adminclient-1: NETWORK_EXCEPTION (13): Cannot connect: "
    assert any(told in ottla("topics", "list", "-b", servers, "-v").err for _ in range(4))


def test_sasl_where_there_is_none_is_one_line_with_its_own_advice(inside: Ottla) -> None:
    options = ["security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN"]
    options += ["sasl.username=u", "sasl.password=p"]
    done = inside("topics", "list", *(f"-X{option}" for option in options))
    assert (done.code, done.out) == (1, "")
    (line,) = done.err.splitlines()
    assert "expects no SASL on this port: see security.protocol" in line


def test_what_an_error_is_about_is_named_once() -> None:
    def line(message: str) -> str:
        context = {"api": "Produce", "topic": "tea", "partition": 0, "transactional_id": "t"}
        return line_of(KafkaError(ErrorCode.INVALID_REQUEST, message, context))

    assert line("No.") == "No (topic tea, partition 0, transactional id t)"
    assert line("tea-time is over") == (
        "tea-time is over (topic tea, partition 0, transactional id t)"
    )
    assert line("tea: t cannot write to 0") == "tea: t cannot write to 0"
