"""The consumer on asyncio: `consumer` is the public class, `poll` what it does to get records.

`position_updates` and `log_offsets` find the offsets to read from, `fetcher` keeps fetches in flight, `collector` takes
records out of their buffer, `watchdog` notices partitions that make no progress. What needs no IO is in
`client.state.consumer`.
"""
