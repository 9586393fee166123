"""The broker: connections, handlers, and the shards that run the pure core over a storage engine."""
