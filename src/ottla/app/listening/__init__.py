"""Running listeners: consumers, workers, commits, rebalances, on asyncio. The rules are in `delivery/`."""
