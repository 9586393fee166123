"""Raw handshakes: the broker answers as Apache Kafka 4.3.1 does."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.broker.security.handshakes import SCRIPTS, play
from tests.broker.security.record_handshakes import recorded
from tests.broker.security.sasl_stage import Stage

from ottla.broker.network import connection
from ottla.broker.security import sasl_gate

DIFFERENCES: Mapping[tuple[str, str], tuple[list[str], str]] = {
    ("SASL", "scram, unknown user"): (
        [
            "> SaslAuthenticate v2",
            "< error 0, '', b'r=nonce...,s=...,i=4096', without end",
        ],
        "an unknown user takes the same steps as a wrong password",
    ),
    ("SASL", "token, basic"): (
        [
            "< error 58, 'Authentication failed during authentication due to invalid credentials "
            "with SASL mechanism OAUTHBEARER', b'', without end",
        ],
        "Kafka fails over its own error message",
    ),
    ("SASL", "a request after the handshake"): (
        [],
        "other requests have no answer before a login",
    ),
}

CASES = [(listener, name) for listener, scripts in SCRIPTS.items() for name in scripts]


@pytest.mark.parametrize(("listener", "name"), CASES)
def test_answers_are_those_of_kafka(
    shared_stage: Stage, monkeypatch: pytest.MonkeyPatch, listener: str, name: str
) -> None:
    # However slow the machine is.
    monkeypatch.setattr(sasl_gate, "MIN_SECONDS_BETWEEN_REAUTHENTICATIONS", 60.0)
    monkeypatch.setattr(connection, "LINGER_SECONDS", 0.0)
    ours = play(listener, name, shared_stage.address(listener))
    kafkas = recorded()[listener, name]
    added, _ = DIFFERENCES.get((listener, name), ([], ""))
    if (listener, name) in DIFFERENCES:
        assert ours != kafkas, "no difference any more"
        assert all(line in ours for line in added)
        assert ours[-1] == kafkas[-1]
    else:
        assert ours == kafkas
