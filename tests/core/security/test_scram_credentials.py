"""What a request to alter credentials changes, against a plain reading of Kafka's rules."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.core.security.scram_credentials import (
    Deletion,
    ScramCredential,
    Upsertion,
    Users,
    alter,
    credential_of_salted_password,
)
from ottla.core.security.scram_formulas import MAX_ITERATIONS, MIN_ITERATIONS, ScramMechanism
from ottla.errors import ErrorCode

users = st.sampled_from(["", "alice", "bob", "carol"])
mechanisms = st.sampled_from([0, 1, 2, 3, -1])
deletions = st.builds(Deletion, users, mechanisms)
upsertions = st.builds(
    Upsertion,
    users,
    mechanisms,
    st.sampled_from([0, MIN_ITERATIONS - 1, MIN_ITERATIONS, MAX_ITERATIONS, MAX_ITERATIONS + 1]),
    st.sampled_from([b"salt", b""]),
    st.sampled_from([b"salted", b"other"]),
)
Known = dict[tuple[ScramMechanism, str], ScramCredential]


def error_of(known: Known, asked: Deletion | Upsertion) -> ErrorCode:
    """The outcome of a change whose user the request names once."""
    if not asked.user:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL
    if asked.mechanism not in (1, 2):
        return ErrorCode.UNSUPPORTED_SASL_MECHANISM
    if isinstance(asked, Deletion):
        if (ScramMechanism(asked.mechanism), asked.user) not in known:
            return ErrorCode.RESOURCE_NOT_FOUND
    elif not MIN_ITERATIONS <= asked.iterations <= MAX_ITERATIONS:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL
    return ErrorCode.NONE


@given(
    rounds=st.lists(
        st.tuples(st.lists(deletions, max_size=3), st.lists(upsertions, max_size=3)), max_size=6
    )
)
def test_each_user_is_changed_once_or_not_at_all(
    rounds: list[tuple[list[Deletion], list[Upsertion]]],
) -> None:
    kept = Users()
    known: Known = {}
    for deleted, upserted in rounds:
        asked: list[Deletion | Upsertion] = [*deleted, *upserted]
        outcome = alter(kept, deleted, upserted)
        assert set(outcome.outcomes) == {each.user for each in asked}
        for user, refused in outcome.outcomes.items():
            of_user = [each for each in asked if each.user == user]
            expected = error_of(known, of_user[0])
            if expected is ErrorCode.NONE and len(of_user) > 1:
                expected = ErrorCode.DUPLICATE_RESOURCE
            assert (ErrorCode.NONE if refused is None else refused.error) is expected
        for each in asked:
            if outcome.outcomes[each.user] is not None:
                continue
            mechanism = ScramMechanism(each.mechanism)
            if isinstance(each, Deletion):
                del known[mechanism, each.user]
            else:
                known[mechanism, each.user] = credential_of_salted_password(
                    mechanism, each.salted_password, each.salt, each.iterations
                )
        for (mechanism, user), credential in outcome.changes.items():
            kept.apply(mechanism, user, None if credential is None else credential.to_json())
        assert known == {
            (mechanism, user): credential
            for mechanism, of_mechanism in kept.credentials.items()
            for user, credential in of_mechanism.items()
        }
        assert kept.names() == sorted({user for _, user in known})
        for user in kept.names():
            assert kept.described(user) == [
                (mechanism, known[mechanism, user].iterations)
                for mechanism in ScramMechanism
                if (mechanism, user) in known
            ]
