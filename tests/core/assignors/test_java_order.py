from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.core.assignors.java_order import (
    PartitionHashSet,
    grouping_order,
    hash_map_order,
    text_order,
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
