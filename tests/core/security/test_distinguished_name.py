"""Names of certificates, as Java prints them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.core.security.certificate_fields import MalformedCertificateError
from ottla.core.security.distinguished_name import name_text, subject_of

UTF8, PRINTABLE, IA5, BMP, UNIVERSAL, NUMERIC = 0x0C, 0x13, 0x16, 0x1E, 0x1C, 0x12
OIDS = {
    "CN": "550403",
    "C": "550406",
    "L": "550407",
    "ST": "550408",
    "STREET": "550409",
    "O": "55040a",
    "OU": "55040b",
    "UID": "0992268993f22c640101",
    "DC": "0992268993f22c640119",
    "emailAddress": "2a864886f70d010901",
    "serialNumber": "550405",
    "1.2.3.4": "2a0304",
}


def der(tag: int, *contents: bytes) -> bytes:
    content = b"".join(contents)
    size = len(content)
    if size < 0x80:
        return bytes([tag, size]) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(length)]) + length + content


def attribute(kind: str, value: str | bytes, tag: int = UTF8) -> bytes:
    data = value if isinstance(value, bytes) else value.encode()
    return der(0x30, der(0x06, bytes.fromhex(OIDS[kind])), der(tag, data))


def name(*parts: list[bytes]) -> bytes:
    return der(0x30, *(der(0x31, *attributes) for attributes in parts))


# What X500Principal.getName() of Java 17 says.
@pytest.mark.parametrize(
    ("encoded", "text"),
    [
        (
            name(
                [attribute("C", "US", PRINTABLE)],
                [attribute("O", "Org, Inc.")],
                [attribute("CN", "Duke")],
            ),
            r"CN=Duke,O=Org\, Inc.,C=US",
        ),
        (name([attribute("CN", 'a+b=c<d>e#f;g"h\\i')]), r"CN=a\+b\=c\<d\>e\#f\;g\"h\\i"),
        (
            name([attribute("CN", " lead trail ")], [attribute("OU", "#hash")]),
            "OU=\\#hash,CN=\\ lead trail\\ ",
        ),
        (
            name([attribute("CN", "x"), attribute("OU", "y")], [attribute("DC", "com", IA5)]),
            "DC=com,CN=x+OU=y",
        ),
        (
            name([attribute("emailAddress", "a@b.c", IA5)], [attribute("CN", "mail")]),
            "CN=mail,1.2.840.113549.1.9.1=#16056140622e63",
        ),
        (name([attribute("CN", "Jürgen 日本 é")]), "CN=Jürgen 日本 é"),
        (name([attribute("CN", "é".encode("utf-16-be"), BMP)]), "CN=\\00\ufffd"),
        (name([attribute("O", "U".encode("utf-32-be"), UNIVERSAL)]), "O=#1c0400000055"),
        (name([attribute("CN", "12", NUMERIC)]), "CN=#12023132"),
        (
            name(
                [attribute("STREET", "Main St")],
                [attribute("UID", "u1")],
                [attribute("ST", "CA")],
                [attribute("L", "LA")],
            ),
            "L=LA,ST=CA,UID=u1,STREET=Main St",
        ),
        (
            name([attribute("serialNumber", "12345", PRINTABLE)], [attribute("1.2.3.4", "abc")]),
            "1.2.3.4=#0c03616263,2.5.4.5=#13053132333435",
        ),
        (name([attribute("CN", "nul\0in")]), "CN=nul\\00in"),
        (name([attribute("CN", "  ")]), "CN=\\ \\ "),
        (name([attribute("CN", "\rret\r")]), "CN=\\\rret\\\r"),
        (name([attribute("CN", "x" * 200)]), "CN=" + "x" * 200),
        (name(), ""),
    ],
)
def test_a_name_is_printed_as_java_prints_it(encoded: bytes, text: str) -> None:
    assert name_text(encoded) == text


def test_the_subject_of_a_certificate_is_found_with_and_without_a_version() -> None:
    issuer, subject = name([attribute("CN", "issuer")]), name([attribute("CN", "subject")])
    rest = [der(0x02, b"\1"), der(0x30), issuer, der(0x30), subject, der(0x30)]
    version = der(0xA0, der(0x02, b"\2"))
    for signed in ([version, *rest], rest):
        assert subject_of(der(0x30, der(0x30, *signed), der(0x30), der(0x03))) == "CN=subject"


@given(st.binary(max_size=60))
def test_garbage_is_a_malformed_certificate(data: bytes) -> None:
    for read in (name_text, subject_of):
        try:
            read(data)
        except MalformedCertificateError:
            continue
