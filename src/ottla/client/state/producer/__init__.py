"""The producer without IO: batches, sequences, the states of a transaction, and what an answer means for a batch."""
