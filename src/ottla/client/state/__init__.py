"""The state and the decisions of the client, without IO: metadata, batches, sequences, membership, positions."""
