"""The names of Kafka's APIs."""

from __future__ import annotations

from ottla.client.api_names import api_key, api_name, known_versions
from ottla.wire.declare import info_of
from ottla.wire.messages.metadata import MetadataRequest


def test_a_name_leads_back_to_its_key_also_for_unknown_ones() -> None:
    for key in [*range(120), 9999]:
        assert api_key(api_name(key)) == key


def test_the_known_versions_are_those_of_the_messages() -> None:
    info = info_of(MetadataRequest)
    assert known_versions()[3] == (info.versions.first, info.versions.last)
    assert all(first <= last for first, last in known_versions().values())
