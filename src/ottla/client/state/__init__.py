"""What the client knows and decides, without IO: metadata, batches, sequences, membership, positions."""
