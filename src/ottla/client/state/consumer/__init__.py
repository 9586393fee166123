"""The consumer without IO: subscriptions, positions, fetch sessions, fetched records, stalls."""
