"""Names in certificates, as Java prints them: `CN=me,OU=sales`.

Kafka makes principals of it, so that ACLs name exactly this text (RFC 2253, in Java's way of escaping).
"""

from __future__ import annotations

from typing import Final

from ottla.core.security.certificate_fields import (
    Element,
    MalformedCertificateError,
    elements,
    subject_name,
)

# The attributes that RFC 2253 has names for; the others are written as their numbers.
_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
# UTF8String, PrintableString, TeletexString, IA5String, GeneralString, BMPString: Java reads all of them as UTF-8.
_STRINGS: Final = frozenset((0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E))
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_PADDING: Final = " \r"


def subject_of(certificate: bytes) -> str:
    """The name of the subject of a certificate, which is given as DER."""
    return name_text(subject_name(certificate))


def name_text(name: bytes) -> str:
    """A distinguished name, which is given as DER: the most specific part first."""
    try:
        (outer,) = elements(name)
        parts = [
            "+".join(map(_attribute, elements(part.content))) for part in elements(outer.content)
        ]
    except (ValueError, IndexError) as error:
        raise MalformedCertificateError("its subject is no distinguished name") from error
    return ",".join(reversed(parts))


def _attribute(attribute: Element) -> str:
    kind, value = elements(attribute.content)
    number = _object_identifier(kind.content)
    keyword = _KEYWORDS.get(number)
    if keyword is None or value.tag not in _STRINGS:
        return f"{keyword or number}=#{value.whole.hex()}"
    return f"{keyword}={_escaped(value.content.decode('utf-8', 'replace'))}"


def _object_identifier(content: bytes) -> str:
    numbers, number = [], 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _escaped(text: str) -> str:
    start = len(text) - len(text.lstrip(_PADDING))
    end = len(text.rstrip(_PADDING))
    return "".join(
        _escaped_character(character, is_padding=not start <= position < end)
        for position, character in enumerate(text)
    )


def _escaped_character(character: str, *, is_padding: bool) -> str:
    if character == "\0":
        return "\\00"
    return f"\\{character}" if is_padding or character in _ESCAPED else character
