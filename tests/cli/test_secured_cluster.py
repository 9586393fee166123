"""Every command on a cluster where clients have to log in: it works with `--command-config`, or says why not."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.cli.conftest import Ottla
from tests.lasting import LASTING

from ottla import Broker
from ottla.cli.commands import SUMMARIES

PROPERTIES = "client.properties"
# Commands that connect to no cluster, or whose work is tested elsewhere.
WITHOUT_A_CLUSTER = {"serve", "log", "storage", "test-broker", "demo", "completion", "certs"}
# A server: its logins are tested in tests/console/access.
OF_SERVERS = {"console"}
# An app and a pipeline take their options from their own files.
OF_PROGRAMS = {"app", "pipeline"}

LINES = """\
topics create first --partitions 2
topics create second
topics list
topics describe first
topics alter second --partitions 2
produce first < espresso
produce first --transactional-id till < espresso
consume first --exit
consume first --exit --group kitchen --from-beginning
consume __consumer_offsets --exit -c 1
groups list
groups describe kitchen
groups describe kitchen --verbose
groups reset-offsets kitchen --topic first --to-earliest --execute
groups delete-offsets kitchen --topic first
groups delete kitchen
transactions list
transactions describe till
transactions producers first 0
transactions find-hanging --broker-id 1
configs alter --topic first --set retention.ms=86400000
configs describe --topic first
configs describe --broker 1 --all
offsets first
records delete first:0:0
cluster describe
cluster brokers
cluster api-versions
cluster log-dirs
cluster features
cluster quorum
acls create --allow-principal User:till --producer --topic first
acls list
acls delete --topic first --yes
users create till --password @espresso
users list
users describe till
users passwd till --password @espresso
users delete till
quotas set --user till producer_byte_rate=1048576
quotas list
quotas remove --user till --all
perf produce measured --num-records 10 --record-size 10
perf consume measured --messages 10 --group measured
perf latency measured --num-records 10
perf transactions measured --num-records 10 --transaction-size 5
topics delete second
""".splitlines()


@pytest.fixture(scope="module")
def secured() -> Iterator[Broker]:
    with Broker({**LASTING, "num.partitions": 1}, security="sasl-ssl") as broker:
        yield broker


@pytest.fixture
def run(secured: Broker, inside: Ottla, tmp_path: Path) -> Ottla:
    write(tmp_path / PROPERTIES, secured.client_options(client="java"))
    write(tmp_path / "mallory.properties", secured.client_options("mallory", client="java"))
    (tmp_path / "espresso").write_text("espresso\n", encoding="ascii")
    return partial(inside, OTTLA_BOOTSTRAP_SERVER=secured.bootstrap_servers)


def write(path: Path, options: dict[str, str]) -> None:
    text = "".join(f"{name}={value}\n" for name, value in options.items())
    path.write_text(text, encoding="utf-8")


def test_every_command_works_with_the_properties_of_kafkas_tools(run: Ottla) -> None:
    named = {line.split()[0] for line in LINES}
    assert named >= SUMMARIES.keys() - WITHOUT_A_CLUSTER - OF_PROGRAMS - OF_SERVERS
    failed = {}
    for line in LINES:
        words, _, stdin = line.partition(" < ")
        done = run(*words.split(), "--command-config", PROPERTIES, stdin=f"{stdin}\n")
        if done.code:
            failed[line] = done.err
    assert not failed


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("topics create third", "it needs Create on topic third"),
        ("topics delete first", "it needs Describe on topic first"),
        ("produce first", "it needs Write on a topic, or IdempotentWrite on the cluster"),
        ("consume first --exit", "it needs Describe on topic first"),
        ("consume first --exit --group g --from-beginning", "it needs Describe on"),
        ("groups describe g", "it needs Describe on group g"),
        ("groups delete g", "it needs Describe on group g"),
        ("transactions describe till", "it needs Describe on transactional id till"),
        ("configs describe --topic first", "it needs DescribeConfigs on topic first"),
        ("topics describe first", "it needs Describe on topic first"),
        ("topics describe other-.*", "no topic matches other-.*"),
        ("configs describe --broker 1", "it needs DescribeConfigs on the cluster"),
        ("offsets first", "it needs Describe on topic first"),
        ("cluster log-dirs", "it needs Describe on the cluster"),
        ("cluster quorum", "it needs Describe on the cluster"),
        ("acls list", "it needs Describe on the cluster"),
        ("acls create --allow-principal User:mallory --topic first", "it needs Alter on the cl"),
        ("users list", "it needs Describe on the cluster"),
        ("users delete till", "it needs Describe on the cluster"),
        ("perf produce first --num-records 1 --record-size 1", "it needs Describe on topic first"),
    ],
)
def test_a_missing_right_is_one_line_that_names_it(run: Ottla, line: str, expected: str) -> None:
    done = run(*line.split(), "--command-config", "mallory.properties", stdin="espresso\n")
    assert (done.code, done.out) == (1, ""), done
    said = [each for each in done.err.splitlines() if each.startswith("ottla: ")]
    assert expected in said[-1], done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ("", "options of the client are in the file of --command-config"),
        ("", "expects TLS on this port: set security.protocol"),
        ("security.protocol=SSL", "certificate is not accepted"),
        ("wrong password", "check user name and password in the file of --command-config"),
    ],
)
def test_a_wrong_login_is_one_line(
    run: Ottla, secured: Broker, tmp_path: Path, properties: str, expected: str
) -> None:
    if properties == "wrong password":
        write(tmp_path / PROPERTIES, secured.client_options() | {"sasl.password": "guess"})
    else:
        (tmp_path / PROPERTIES).write_text(properties, encoding="ascii")
    for line in ("topics list", "produce first", "consume first --exit", "acls list"):
        done = run(*line.split(), "--command-config", PROPERTIES, stdin="espresso\n")
        assert (done.code, done.out) == (1, ""), done
        said = [each for each in done.err.splitlines() if each.startswith("ottla: ")]
        assert expected in said[-1], done.err


def test_names_of_users_are_completed(run: Ottla) -> None:
    options = ("--command-config", PROPERTIES)
    assert run("users", "create", "waiter", *options, stdin="secret\n").code == 0
    ask = ("completion", "candidates", "ottla")
    assert "waiter\t" in run(*ask, "users", "passwd", *options, "wai").out
    found = run(*ask, "acls", "list", *options, "--principal", "User:wai").out
    assert found.startswith("User:waiter\t")
    run("users", "delete", "waiter", *options)
