"""The producer on asyncio: sending batches, and its conversation with transaction coordinators."""
