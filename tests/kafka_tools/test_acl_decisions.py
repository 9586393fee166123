"""Our decisions about random ACLs are those of Kafka's own class StandardAuthorizer.

Kafka's decisions about some cases are recorded in `acl_decisions.txt`; the campaign asks Kafka's class about many more.
With OTTLA_WRITE_FACTS=1 the record is written instead.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from tests import maven
from tests.kafka_tools.acl_cases import Case, Question, case_of

from ottla.access import AclBinding, Operation, PatternType, Permission, ResourceType

RECORDED = Path(__file__).with_name("acl_decisions.txt")
SOURCE = Path(__file__).with_name("AclDecider.java")
RECORDED_CASES = 200
CAMPAIGN_CASES = 20_000
SECONDS = 300


def kafkas_answers(folder: Path, cases: list[Case]) -> list[str]:
    if shutil.which("javac") is None:
        pytest.skip("it needs javac, which is not installed")
    done = subprocess.run(
        [
            *("java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m"),
            *("-cp", f"{maven.kafka_server(folder)}/*", str(SOURCE)),
        ],
        input="".join(f"{line}\n" for case in cases for line in case.lines()),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_decisions_are_those_that_kafka_made() -> None:
    recorded = RECORDED.read_text(encoding="utf-8").splitlines()
    assert len(recorded) == RECORDED_CASES
    assert [case_of(number).our_answers() for number in range(RECORDED_CASES)] == recorded
    # The cases are about something.
    letters = "".join(recorded)
    assert 0.2 < letters.count("a") / len(letters) < 0.8


@pytest.mark.campaign
def test_decisions_are_those_that_kafka_makes(tmp_path: Path) -> None:
    cases = [case_of(number) for number in range(CAMPAIGN_CASES)]
    kafkas = kafkas_answers(tmp_path, cases)
    if os.environ.get("OTTLA_WRITE_FACTS"):
        text = "".join(f"{line}\n" for line in kafkas[:RECORDED_CASES])
        RECORDED.write_text(text, encoding="utf-8")
    different = [
        number
        for number, (case, theirs) in enumerate(zip(cases, kafkas, strict=True))
        if case.our_answers() != theirs
    ]
    assert not different


def _asked(name: str, *acls: AclBinding) -> Case:
    question = Question("User:a", "10.0.0.1", Operation.READ, ResourceType.GROUP, name)
    return Case((), False, acls, (question,))


def _acl(name: str, pattern_type: PatternType, permission: Permission) -> AclBinding:
    return AclBinding(
        ResourceType.GROUP, name, pattern_type, "User:a", "*", Operation.READ, permission
    )


@pytest.mark.campaign
def test_where_we_decide_otherwise_on_purpose(tmp_path: Path) -> None:
    """Kafka's index does not find every ACL of names that begin with an asterisk, or sort before it."""
    literal, prefixed = PatternType.LITERAL, PatternType.PREFIXED
    cases = [
        # `*` does not apply to a group whose name begins with it: not the permission, nor the denial.
        _asked("*x", _acl("*", literal, Permission.ALLOW)),
        _asked(
            "*x",
            _acl("*", literal, Permission.DENY),
            _acl("*", prefixed, Permission.ALLOW),
        ),
        # Kafka fails with an exception.
        _asked(
            "!!x",
            _acl("!!y", literal, Permission.ALLOW),
            _acl("!!x", literal, Permission.ALLOW),
        ),
    ]
    assert kafkas_answers(tmp_path, cases) == ["d", "a", "x"]
    assert [case.our_answers() for case in cases] == ["a", "d", "a"]
