"""What a script is: a function that plays on a stage, known by its name; and how it is played."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import NamedTuple

from tests.groups.kafka_answers.brokers import DEFAULT
from tests.groups.kafka_answers.stage import BrokerUnderTest, Stage

Act = Callable[[Stage], None]


class Script(NamedTuple):
    """`broker` names the options that it needs, of those in `brokers.OPTIONS`."""

    name: str
    subject: str
    act: Act
    broker: str


SCRIPTS: dict[str, Script] = {}


def script(act: Act) -> Act:
    """Declare a script for a broker with the usual options."""
    return script_on(DEFAULT)(act)


def script_on(broker: str) -> Callable[[Act], Act]:
    """Declare a script for a broker with certain options."""

    def declare(act: Act) -> Act:
        subject = act.__module__.rpartition(".")[2]
        made = Script(act.__name__, subject, act, broker)
        assert made.name not in SCRIPTS, made.name
        SCRIPTS[made.name] = made
        return act

    return declare


def play(script: Script, broker: BrokerUnderTest) -> list[str]:
    """What a broker answers."""
    with ExitStack() as stack:
        stage = Stage(broker, stack)
        script.act(stage)
        return stage.transcript.lines
