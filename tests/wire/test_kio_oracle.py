"""Every message at every version, against kio, which is generated from Kafka's own schemas."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from kio.serial import entity_reader, entity_writer
from tests.wire.every_message import KNOWN_TO_KIO, Case, full_value, plain_encode, values

from ottla.wire.compile import decode_message, encode_message
from ottla.wire.framing import frame_request, frame_response, read_request_header

REQUESTS = tuple(case for case in KNOWN_TO_KIO if case.is_request)
RESPONSES = tuple(case for case in KNOWN_TO_KIO if not case.is_request)
every_case = pytest.mark.parametrize("case", KNOWN_TO_KIO, ids=str)


def kio_decode(case: Case, data: bytes) -> Any:
    entity, size = entity_reader(case.kio)(data, 0)
    assert size == len(data)
    return entity


def kio_encode(case: Case, entity: Any) -> bytes:
    with io.BytesIO() as buffer:
        entity_writer(case.kio)(buffer, entity)
        return buffer.getvalue()


@every_case
@settings(
    max_examples=20,
    deadline=None,
    database=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(data=st.data())
def test_kio_reads_what_we_write_and_writes_the_same_bytes(case: Case, data: st.DataObject) -> None:
    message = data.draw(values(case))
    ours = encode_message(message, case.version)
    assert kio_encode(case, kio_decode(case, ours)) == ours
    assert decode_message(case.cls, case.version, ours) == message
    assert plain_encode(case, message, {}) == ours


@every_case
def test_a_message_with_every_field_set_is_the_same_in_kio(case: Case) -> None:
    message = full_value(case)
    ours = encode_message(message, case.version)
    assert kio_encode(case, kio_decode(case, ours)) == ours
    assert decode_message(case.cls, case.version, ours) == message


@pytest.mark.parametrize("case", REQUESTS, ids=str)
@pytest.mark.parametrize("client_id", [None, "", "client"])
def test_kio_reads_our_request_frames(case: Case, client_id: str | None) -> None:
    message = full_value(case)
    frame = frame_request(message, case.version, 77, client_id)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    header, size = entity_reader(case.kio.__header_schema__)(frame, 4)
    assert header.request_api_key == case.info.api_key
    assert header.request_api_version == case.version
    assert header.correlation_id == 77
    assert header.client_id == client_id
    assert kio_decode(case, frame[4 + size :])

    ours = read_request_header(memoryview(frame)[4:], case.flexible)
    assert ours == (case.info.api_key, case.version, 77, client_id, size)


@pytest.mark.parametrize("case", RESPONSES, ids=str)
def test_kio_reads_our_response_frames(case: Case) -> None:
    frame = b"".join(frame_response(full_value(case), case.version, 77))
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    header, size = entity_reader(case.kio.__header_schema__)(frame, 4)
    assert header.correlation_id == 77
    assert kio_decode(case, frame[4 + size :])
