"""Commands of kafka-configs about users, client ids and addresses: SCRAM credentials and quotas."""

from __future__ import annotations

import re
from typing import Final

from tests.kafka_tools.commands import Command, comparable

_CONFIGS: Final = "kafka.admin.ConfigCommand"
_ALICE: Final = "--entity-type users --entity-name alice"
_APP: Final = "--entity-type clients --entity-name app"


def _alter(arguments: str) -> Command:
    return Command(_CONFIGS, f"AT --alter {arguments}")


def _describe(arguments: str) -> Command:
    return Command(_CONFIGS, f"AT --describe {arguments}")


# In this order: some change what later ones show.
USER_COMMANDS: Final = (
    _alter(f"{_ALICE} --add-config SCRAM-SHA-256=[iterations=8192,password=secret]"),
    _alter(f"{_ALICE} --add-config SCRAM-SHA-512=[password=secret]"),
    _alter(f"{_ALICE} --add-config SCRAM-SHA-256=[password=a],SCRAM-SHA-512=[password=b]"),
    _alter(f"{_ALICE} --add-config SCRAM-SHA-256=[iterations=100,password=secret]"),
    _alter(f"{_ALICE} --add-config SCRAM-SHA-256=[iterations=100000,password=secret]"),
    _alter(f"{_ALICE} --add-config SCRAM-SHA-256=[iterations=8192]"),
    _alter(f"{_ALICE} --add-config SCRAM-SHA-1=[password=secret]"),
    _alter("--entity-type users --entity-default --add-config SCRAM-SHA-256=[password=secret]"),
    _alter(f"{_APP} --add-config SCRAM-SHA-256=[password=secret]"),
    _alter("--user bob --add-config SCRAM-SHA-512=[iterations=4096,password=secret]"),
    _describe(_ALICE),
    _describe("--entity-type users"),
    _describe("--user bob"),
    _describe("--user carol"),
    _alter(f"{_ALICE} --add-config producer_byte_rate=1024,consumer_byte_rate=2048"),
    _alter(f"{_ALICE} --add-config producer_byte_rate=512,SCRAM-SHA-256=[password=secret]"),
    _alter(f"{_ALICE} {_APP} --add-config request_percentage=150.5"),
    _alter("--entity-type users --entity-default --add-config controller_mutation_rate=7.5"),
    _alter(f"{_APP} --add-config producer_byte_rate=4096"),
    _alter("--client-defaults --add-config consumer_byte_rate=8192"),
    _alter("--user-defaults --client app --add-config consumer_byte_rate=1"),
    _alter("--user-defaults --client-defaults --add-config consumer_byte_rate=2"),
    _alter("--entity-type ips --entity-name 10.1.2.3 --add-config connection_creation_rate=5"),
    _alter("--ip-defaults --add-config connection_creation_rate=50"),
    _alter("--ip 10.1.2.3 --add-config producer_byte_rate=5"),
    _alter(f"{_ALICE} --add-config connection_creation_rate=5"),
    _alter(f"{_ALICE} --add-config nonsense=5"),
    _alter(f"{_ALICE} --add-config producer_byte_rate=0"),
    _alter(f"{_ALICE} --add-config producer_byte_rate=some"),
    _describe(_ALICE),
    _describe(f"{_ALICE} {_APP}"),
    _describe(f"{_ALICE} --entity-type clients"),
    _describe("--entity-type users --entity-type clients"),
    _describe("--entity-type users --entity-default"),
    _describe("--entity-type users"),
    _describe(_APP),
    _describe("--entity-type clients"),
    _describe("--client-defaults"),
    _describe("--entity-type ips"),
    _describe("--ip 10.1.2.3"),
    _describe("--ip-defaults"),
    _describe("--ip 10.9.9.9"),
    _describe("--user alice --all"),
    _alter(f"{_ALICE} --delete-config producer_byte_rate"),
    _alter(f"{_ALICE} --delete-config producer_byte_rate"),
    _alter(f"{_ALICE} --delete-config SCRAM-SHA-256"),
    _alter(f"{_ALICE} --delete-config SCRAM-SHA-256"),
    _alter("--user carol --delete-config SCRAM-SHA-512"),
    _alter(f"{_ALICE} {_APP} --delete-config request_percentage"),
    _alter("--client-defaults --delete-config consumer_byte_rate"),
    _alter("--ip 10.1.2.3 --delete-config connection_creation_rate"),
    _describe("--entity-type users"),
    _describe("--entity-type users --entity-type clients"),
    _describe("--entity-type clients"),
    _describe("--entity-type ips"),
)

_VALUES: Final = re.compile(r"(?<= are ).*")


def comparable_users(title: str, text: str) -> str:
    """As `comparable`; entities and their values are in the order of a hash table."""
    lines = comparable(title, text).split("\n")
    return "\n".join(
        sorted(
            _VALUES.sub(lambda found: ", ".join(sorted(found[0].split(", "))), line)
            for line in lines
        )
    )
