"""What a broker reads of a certificate."""

from __future__ import annotations

import pytest
from tests.core.security.test_distinguished_name import der

from ottla.core.security.certificate_fields import MalformedCertificateError, validity_of

SEQUENCE, VERSION, UTC_TIME, GENERALIZED_TIME = 0x30, 0xA0, 0x17, 0x18


def certificate_with(*times: bytes, version: bytes = b"") -> bytes:
    empty = der(SEQUENCE)
    fields = (version, der(0x02, b"\1"), empty, empty, der(SEQUENCE, *times), empty)
    return der(SEQUENCE, der(SEQUENCE, *fields), empty)


@pytest.mark.parametrize("version", [b"", der(VERSION, b"\2\1\2")])
def test_both_kinds_of_time_are_read(version: bytes) -> None:
    begins = der(UTC_TIME, b"491231235959Z")
    expires = der(GENERALIZED_TIME, b"20500101000000Z")
    validity = validity_of(certificate_with(begins, expires, version=version))
    assert validity == ("20491231235959Z", "20500101000000Z")
    old = validity_of(certificate_with(der(UTC_TIME, b"500101000000Z"), expires))
    assert old.begins == "19500101000000Z"


@pytest.mark.parametrize(
    "certificate",
    [
        b"",
        b"\x30",
        der(SEQUENCE, der(SEQUENCE)),
        certificate_with(),
        certificate_with(der(UTC_TIME, b"4912")),
        certificate_with(der(UTC_TIME, b"\xff1231235959Z"), der(UTC_TIME, b"491231235959Z")),
        certificate_with(der(UTC_TIME, b"4912312359Z"), der(UTC_TIME, b"491231235959Z")),
    ],
)
def test_what_is_no_certificate_is_refused(certificate: bytes) -> None:
    with pytest.raises(MalformedCertificateError):
        validity_of(certificate)
