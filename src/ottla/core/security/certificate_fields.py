"""The fields of a certificate that a broker looks at: DER, read without a library that has to be installed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_VERSION: Final = 0xA0
# UTCTime, with two digits for the year, and GeneralizedTime (RFC 5280, 4.1.2.5).
_UTC_TIME: Final = 0x17
_FIRST_YEAR_OF_UTC_TIME: Final = 1950
_TIME: Final = re.compile(r"\d{14}Z", re.ASCII)


class MalformedCertificateError(Exception):
    """The bytes are no certificate."""


class Element(NamedTuple):
    """One value of DER."""

    tag: int
    whole: bytes
    content: bytes


class Validity(NamedTuple):
    """From when until when a certificate is valid: YYYYMMDDhhmmssZ, which is ordered as text."""

    begins: str
    expires: str


def subject_name(certificate: bytes) -> bytes:
    """The distinguished name of the subject of a certificate, which is given as DER, as this is."""
    return _field(certificate, 4, "subject").whole


def validity_of(certificate: bytes) -> Validity:
    """When a certificate is valid, which is given as DER."""
    try:
        begins, expires = map(_time, elements(_field(certificate, 3, "validity").content))
    except ValueError as error:
        raise MalformedCertificateError("it does not say when it is valid") from error
    return Validity(begins, expires)


def elements(data: bytes) -> Iterator[Element]:
    """The values that follow each other in DER; ValueError or IndexError if they are cut off."""
    position = 0
    while position < len(data):
        tag, length, start = data[position], data[position + 1], position + 2
        if length >= 0x80:
            size = length & 0x7F
            length = int.from_bytes(data[start : start + size], "big")
            start += size
        end = start + length
        if end > len(data):
            raise ValueError("a value is cut off")
        yield Element(tag, data[position:end], data[start:end])
        position = end


def _field(certificate: bytes, number: int, name: str) -> Element:
    """One of serial number (0), signature, issuer, validity, subject; a version may come before."""
    try:
        (outer,) = elements(certificate)
        signed, *_ = elements(outer.content)
        parts = list(elements(signed.content))
        return parts[number + 1 if parts[0].tag == _VERSION else number]
    except (ValueError, IndexError) as error:
        raise MalformedCertificateError(f"it has no {name}") from error


def _time(element: Element) -> str:
    text = element.content.decode("ascii")
    if element.tag == _UTC_TIME:
        century = 1900 if int(text[:2]) >= _FIRST_YEAR_OF_UTC_TIME % 100 else 2000
        text = f"{century + int(text[:2])}{text[2:]}"
    if _TIME.fullmatch(text) is None:
        raise ValueError("no time")
    return text
