"""The producer without IO: buffered batches, sequence numbers, the states of a transaction."""
