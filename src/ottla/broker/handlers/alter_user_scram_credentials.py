"""AlterUserScramCredentials: sets and removes SCRAM credentials of users; clients send keys, not passwords."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.access import CLUSTER, Operation
from ottla.broker.catalog_changes import Decision
from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.gather_responses import NowOrLater, then
from ottla.broker.requests.request import RequestContext
from ottla.core.outcomes import Refused
from ottla.core.security.scram_credentials import (
    Alteration,
    Deletion,
    Upsertion,
    alter,
)
from ottla.errors import ErrorCode
from ottla.events import EventLog
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)

logger = EventLog(__name__)


def handle(
    node: Node, request: AlterUserScramCredentialsRequest, context: RequestContext
) -> NowOrLater[AlterUserScramCredentialsResponse]:
    if not node.authorizer.allows(context.caller, Operation.ALTER, CLUSTER):
        denied = Refused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        users = {each.name for each in request.deletions} | {
            each.name for each in request.upsertions
        }
        return _response(dict.fromkeys(sorted(users), denied))
    cluster = node.cluster
    deletions = [Deletion(each.name, each.mechanism) for each in request.deletions]
    upsertions = [
        Upsertion(
            each.name,
            each.mechanism,
            each.iterations,
            bytes(each.salt),
            bytes(each.salted_password),
        )
        for each in request.upsertions
    ]
    alterations: list[Alteration] = []

    def decide() -> Decision[None]:
        alterations.append(alter(cluster.catalog.users, deletions, upsertions))
        return Decision(cluster.catalog.set_credentials(alterations[-1].changes), None)

    def altered(failed: Refused | None) -> AlterUserScramCredentialsResponse:
        outcomes = alterations[-1].outcomes
        if failed is not None:
            return _response({user: each or failed for user, each in outcomes.items()})
        for (mechanism, user), credential in alterations[-1].changes.items():
            logger.info(
                "user_credential_changed",
                "the credential of user %(user)s for %(mechanism)s is %(change)s",
                user=user,
                mechanism=mechanism.sasl_name,
                change="removed" if credential is None else "set",
            )
        return _response(outcomes)

    return then(cluster.change(decide), altered)


def _response(outcomes: Mapping[str, Refused | None]) -> AlterUserScramCredentialsResponse:
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(
                user=user,
                error_code=ErrorCode.NONE if refused is None else refused.error,
                error_message=None if refused is None else refused.text,
            )
            for user, refused in outcomes.items()
        ]
    )


API = serve(AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse, handle)
