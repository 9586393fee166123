"""The client's asyncio half: connections, and the producer, the consumer and the admin on them."""
