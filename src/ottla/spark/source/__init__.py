"""Reading topics: the batch and streaming readers, their options, offsets and limits."""
