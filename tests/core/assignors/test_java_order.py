from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.core.assignors.java_order import (
    PartitionHashSet,
    grouping_order,
    hash_map_order,
    int_set_order,
    text_order,
    uuid_map_order,
    uuid_order,
    uuid_set_order,
)
from ottla.model import java_string_hash


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", 0),
        ("a", 97),
        ("Aa", 2112),
        ("BB", 2112),
        ("hello", 99162322),
        ("polygenelubricants", 2**31),  # -2147483648 in Java
        ("é", 233),
        ("😀", 1772899),  # two units
    ],
)
def test_hashes_are_those_of_java(text: str, code: int) -> None:
    assert java_string_hash(text) == code


def test_strings_are_ordered_by_units_not_by_code_points() -> None:
    assert sorted(["\uff21", "\U0001d538", "z"], key=text_order) == ["z", "\U0001d538", "\uff21"]


def test_a_map_lists_its_keys_by_the_low_bits_of_their_hashes() -> None:
    # 'a' to 'z' are 97 to 122, and 26 keys have a table of 64.
    letters = [chr(code) for code in range(ord("z"), ord("a") - 1, -1)]
    assert hash_map_order(letters) == sorted(letters, key=lambda letter: ord(letter) % 64)
    assert hash_map_order(["o", "p", "a", "q"]) == ["p", "a", "q", "o"]


def test_a_map_doubles_when_it_is_three_quarters_full() -> None:
    # 'p' is in bucket 0 of 16 and in bucket 16 of 32, 'a' in bucket 1 of both.
    twelve = list("pabcdefghijk")
    assert hash_map_order(twelve)[0] == "p"
    assert hash_map_order([*twelve, "l"])[0] == "a"


def test_keys_of_one_bucket_are_listed_as_they_came() -> None:
    assert hash_map_order(["Aa", "BB"]) == ["Aa", "BB"]
    assert hash_map_order(["BB", "Aa"]) == ["BB", "Aa"]


def test_a_map_that_groups_lists_the_keys_of_a_bucket_backwards() -> None:
    assert grouping_order(["Aa", "BB", "Aa"]) == ["BB", "Aa"]


def test_a_map_that_groups_grows_with_the_next_key_that_it_is_asked_for() -> None:
    thirteen = list("pabcdefghijkl")
    assert grouping_order(thirteen)[0] == "p"
    assert grouping_order([*thirteen, "p"])[0] == "a"


@given(st.lists(st.text(max_size=4)))
def test_a_map_lists_every_key_once(keys: list[str]) -> None:
    assert sorted(hash_map_order(keys)) == sorted(set(keys))


def test_a_set_of_partitions_begins_where_their_hashes_say() -> None:
    # 31 * (31 + p) + 116 for the topic "t": 1077 for partition 0, and 1077 is 5 in a table of 16.
    numbers = PartitionHashSet("t")
    for partition in (0, 1, 5):  # buckets 5, 4 and 0
        numbers.add(partition)
    assert numbers.first() == 5
    numbers.remove(5)
    assert numbers.first() == 1


def test_a_set_does_not_shrink() -> None:
    grown, small = PartitionHashSet("t"), PartitionHashSet("t")
    for partition in range(13):
        grown.add(partition)
    for partition in range(13):
        if partition not in (0, 5):
            grown.remove(partition)
    for partition in (0, 5):
        small.add(partition)
    # 1077 and 1232 are in buckets 5 and 0 of 16, in 21 and 16 of 32; partition 6, 1263, in 15 of both.
    for numbers in (small, grown):
        numbers.add(6)
    assert small.first() == 5
    assert grown.first() == 6


# In the order of Kafka's `Uuid.compareTo`, and what Java lists of these twelve.
UUIDS = [
    UUID("85c8a30a98496cb61a64d9ffee20a422"),
    UUID("96c697fbb25830697914dd2d973295f1"),
    UUID("98ec899916e40159bf8fc3c9002ae27a"),
    UUID("9a1c1880ec0a4f32325a3908bd8e0113"),
    UUID("a440e2651db344e9c8e60506bdf81cb7"),
    UUID("c54c61ed9f024ba7384e818eb69539d9"),
    UUID("e9b69e13f4f50fbb1c021a10a968019a"),
    UUID("1a7850eaf96443e070f3a3b34779ab7e"),
    UUID("4121c8e0996da4a661f44c359fc917b3"),
    UUID("5021aa93d7917884dddda85caf3464c4"),
    UUID("644c17a3c64d14b5d5c23197dcc7f8e9"),
    UUID("76a2c3b0c5c503da72d87d347342238b"),
]
IN_A_SET = [0, 5, 11, 3, 6, 10, 4, 7, 8, 1, 9, 2]
IN_A_MAP = [4, 7, 8, 0, 1, 9, 5, 11, 3, 6, 10, 2]


def test_uuids_are_ordered_by_signed_halves() -> None:
    assert sorted(UUIDS, key=uuid_order) == UUIDS
    halves = [UUID(int=1 << 63), UUID(int=0), UUID(int=1)]
    assert sorted(halves, key=uuid_order) == halves


def test_uuids_are_listed_as_by_java() -> None:
    assert uuid_set_order(reversed(UUIDS)) == [UUIDS[place] for place in IN_A_SET]
    assert uuid_map_order(reversed(UUIDS)) == [UUIDS[place] for place in IN_A_MAP]


@pytest.mark.parametrize(
    ("numbers", "listed"),
    [
        ([40, 17, 16, 2, 1, 0], [0, 16, 1, 17, 2, 40]),
        ([65536, 3, 70000, 12], [65536, 70000, 3, 12]),
        (range(16, 34), [*range(32, 34), *range(16, 32)]),
        (range(12), list(range(12))),
    ],
)
def test_numbers_are_listed_as_by_java(numbers: list[int], listed: list[int]) -> None:
    assert int_set_order(numbers) == listed
