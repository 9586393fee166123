"""The addresses that quotas are about, in the form in which connections have them."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address

from ottla.event_loop import addresses_of


def canonical_address(name: str) -> str | None:
    """An address in its usual form; None if it is none. An IPv4 address within IPv6 is the former."""
    try:
        address = ip_address(name)
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return str(address)


async def resolved_address(name: str) -> str | None:
    """The address of a host name; None if there is no such host."""
    known = canonical_address(name)
    if known is not None:
        return known
    try:
        found = await addresses_of(name, 0)
    except (OSError, UnicodeError):
        return None
    return canonical_address(found[0].partition("%")[0]) if found else None
