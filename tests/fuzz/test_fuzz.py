"""The campaign in short, with fixed seeds; `make campaign` runs it at length."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fuzz.batches import run_batches
from tests.fuzz.disk import run_disk
from tests.fuzz.handshakes import run_handshakes
from tests.fuzz.logins import run_logins
from tests.fuzz.plain import run_plain
from tests.fuzz.plain_groups import run_plain_groups
from tests.fuzz.torn import TEARS, run_torn
from tests.fuzz.wire import run_wire

from ottla.broker.requests.apis import SERVED
from ottla.records.compression import Codec

SEED = 20_260_101


def test_mutated_frames_cost_no_more_than_their_connection(tmp_path: Path) -> None:
    tally = run_wire(tmp_path, SEED, frames=9_000, check_every=3_000)
    print(tally)
    assert tally.frames >= 9_000
    assert tally.checks == 3
    # Frames that got past the decoder, of every API and version.
    assert tally.answers > 1_000
    assert {key for key, _ in tally.versions} == set(SERVED)


def test_requests_answered_together_are_answered_as_one_by_one(tmp_path: Path) -> None:
    tally = run_plain(tmp_path, SEED, receives=800)
    print(tally)
    assert tally.receives == 800
    assert tally.batches > 500
    assert tally.closed > 10


def test_plain_group_requests_are_answered_as_by_handlers(tmp_path: Path) -> None:
    tally = run_plain_groups(tmp_path, SEED, receives=1_000)
    print(tally)
    assert tally.receives >= 1_000
    assert tally.generations > 20
    assert tally.offsets > 5
    assert tally.closed > 10


def test_mutated_logins_get_nobody_in(tmp_path: Path) -> None:
    tally = run_logins(tmp_path, SEED, conversations=250, check_every=125)
    print(tally)
    assert tally.conversations == 250
    assert tally.answers > 120


def test_mutated_handshakes_get_nobody_in(tmp_path: Path) -> None:
    tally = run_handshakes(tmp_path, SEED, handshakes=60, check_every=60)
    print(tally)
    assert tally.handshakes == 60
    assert tally.finished > 5


def test_acknowledged_batches_are_readable_by_every_decoder(tmp_path: Path) -> None:
    tally = run_batches(tmp_path, SEED, 4_000)
    print(tally)
    assert tally.decoded > 200


def test_damaged_files_cost_nothing_before_the_damage(tmp_path: Path) -> None:
    tally = run_disk(tmp_path, SEED, first_case=0, cases=30)
    print(tally)
    assert tally.cases == 30


@pytest.mark.parametrize("codec", Codec)
def test_a_torn_write_is_gone_or_whole(tmp_path: Path, codec: Codec) -> None:
    tally = run_torn(tmp_path, [codec], list(TEARS), every_byte=23)
    assert tally.cases > 4 * 4
