"""The services that the handlers of requests use."""

from __future__ import annotations

from typing import Final

from ottla.console.access.access import Access
from ottla.console.access.visibility import Visibility
from ottla.console.apps.letter_changes import LetterChanges
from ottla.console.apps.letter_counts import LetterTally
from ottla.console.apps.letter_session import LetterReaders
from ottla.console.clients import Clients
from ottla.console.cluster.history import ClusterHistory
from ottla.console.cluster.poller import ClusterPoller
from ottla.console.groups.descriptions import GroupDescriptions
from ottla.console.groups.journal import RebalanceJournal
from ottla.console.groups.record_lags import RecordLags
from ottla.console.groups.standing import GroupWatch
from ottla.console.http.live import LiveEvents
from ottla.console.http.streams import OpenStreams
from ottla.console.internals.broker_internals import BrokerInternals
from ottla.console.internals.event_feed import EventFeed
from ottla.console.internals.page_client import InternalsClient
from ottla.console.pipelines.lister import PipelineLister
from ottla.console.producers.expiration import ProducerExpiration
from ottla.console.records.registry import record_decoder
from ottla.console.registry.registry_client import registry_client_of
from ottla.console.registry.schema_catalog import SchemaCatalog
from ottla.console.settings import ConsoleSettings
from ottla.console.transactions.coordinators import TransactionalIdLister
from ottla.console.transactions.journal import TransactionJournal
from ottla.console.transactions.watch import OpenTransactionWatch


class Console:
    """One cluster, one poller, any number of browsers."""

    def __init__(self, settings: ConsoleSettings) -> None:
        self.settings: Final = settings
        self.clients: Final = Clients(settings.options)
        """The clients of the console itself."""
        self.live: Final = LiveEvents()
        self.streams: Final = OpenStreams()
        self.history: Final = ClusterHistory()
        self._internals_client = (
            None
            if settings.internals_url is None
            else InternalsClient(settings.internals_url, settings.internals_options)
        )
        self.internals: Final = BrokerInternals(self._internals_client, self.live)
        self.poller: Final = ClusterPoller(
            self.clients,
            self.live,
            self.history,
            self.internals.measured,
            settings.broker_addresses,
        )
        self.events: Final = EventFeed(self._internals_client)
        self.access: Final = Access(settings, self.clients)
        self.visibility: Final = Visibility(self.clients, self.poller)
        self.transactional_ids: Final = TransactionalIdLister(self.clients)
        self.open_transactions: Final = OpenTransactionWatch(self.clients, self.poller)
        self.producer_expiration: Final = ProducerExpiration()
        self.journal: Final = TransactionJournal(self.clients, self.poller)
        self.group_descriptions: Final = GroupDescriptions(self.clients)
        self.group_watch: Final = GroupWatch(self.poller, self.group_descriptions)
        self.rebalances: Final = RebalanceJournal(
            self.clients, self.poller, self.live, self._internals_client
        )
        self.record_lags: Final = RecordLags(self.clients)
        self.pipelines: Final = PipelineLister(
            self.clients, self.poller, self.transactional_ids, self.journal
        )
        self.record_decoder: Final = record_decoder(settings)
        self.is_stopping = False
        self.letter_readers: Final = LetterReaders()
        self.letter_tally: Final = LetterTally(self.letter_readers)
        self.letter_changes: Final = LetterChanges(
            self.letter_readers, self.live, self.letters_moved
        )
        self.registry: Final = registry_client_of(settings)
        self.schema_catalog: Final = None if self.registry is None else SchemaCatalog(self.registry)

    def letters_moved(self) -> None:
        """Look at the topics of letters again."""
        self.letter_tally.look_again()
        self.poller.poll_soon()

    async def start(self) -> None:
        """Begin to look at the cluster; it need not answer yet."""
        self.access.start()
        self.poller.start()
        self.internals.start()
        self.open_transactions.start()
        self.journal.start()
        self.group_watch.start()
        self.rebalances.start()

    async def end_streams(self) -> None:
        """End what browsers listen to: streams that are open would keep the server from stopping."""
        self.is_stopping = True
        await self.live.close()
        await self.events.stop()

    async def stop(self) -> None:
        """End everything that was started."""
        await self.end_streams()
        await self.letter_changes.close()
        await self.letter_tally.close()
        self.letter_readers.close()
        await self.rebalances.stop()
        if self.schema_catalog is not None:
            await self.schema_catalog.close()
        await self.record_decoder.close()
        if self.registry is not None:
            await self.registry.close()
        await self.internals.stop()
        if self._internals_client is not None:
            await self._internals_client.close()
        await self.record_lags.stop()
        await self.group_watch.stop()
        await self.journal.stop()
        await self.open_transactions.stop()
        await self.poller.stop()
        await self.access.close()
        await self.clients.close()
