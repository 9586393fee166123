"""Topics that are there, among names of topics that may be gone."""

from __future__ import annotations

from typing import Any

import pytest

import ottla
from ottla.cli.main import main
from ottla.client.existing_topics import describe_existing_topics
from ottla.errors import ErrorCode, KafkaError, PartialFailureError, RetriableError

UNKNOWN = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


class Refusing:
    """An admin client that describes nothing."""

    def __init__(self, *errors: KafkaError) -> None:
        self._errors = dict(enumerate(errors))

    def describe_topics(self, names: Any) -> Any:
        raise PartialFailureError({}, self._errors)


def test_those_that_are_gone_are_left_out(ottla_broker: ottla.Broker, ottla_topic: str) -> None:
    with ottla.Admin(bootstrap_servers=ottla_broker.bootstrap_servers) as admin:
        admin.create_topics([ottla.admin.NewTopic(ottla_topic, 3)])
        found = describe_existing_topics(admin, [ottla_topic, f"{ottla_topic}-gone"])
        assert [len(each.partitions) for each in found.values()] == [3]
        assert (
            describe_existing_topics(admin, [f"{ottla_topic}-gone"])
            == describe_existing_topics(admin, [])
            == {}
        )


def test_another_reason_is_an_error_and_the_lasting_one_is_told() -> None:
    passes = RetriableError(ErrorCode.LEADER_NOT_AVAILABLE)
    stays = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    for errors, told in (((UNKNOWN, passes, stays), stays), ((UNKNOWN, passes), passes)):
        with pytest.raises(KafkaError) as caught:
            describe_existing_topics(Refusing(*errors), ["a", "b", "c"])  # type: ignore[arg-type]
        assert caught.value is told


@pytest.mark.parametrize("words", ["cluster describe", "offsets", "transactions find-hanging"])
def test_commands_for_all_topics_do_without_those_that_go_meanwhile(
    ottla_broker: ottla.Broker,
    ottla_topic: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: str,
) -> None:
    servers = ottla_broker.bootstrap_servers
    with ottla.Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([ottla.admin.NewTopic(ottla_topic)])
    real = ottla.Admin.list_topics

    def listed(self: ottla.Admin, **details: Any) -> set[str]:
        return {*real(self, **details), f"{ottla_topic}-gone"}

    monkeypatch.setattr(ottla.Admin, "list_topics", listed)
    assert main([*words.split(), "-b", servers]) == 0, capsys.readouterr().err
