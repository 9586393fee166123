"""Group coordination: pure state machines over the events of a `__consumer_offsets` partition."""
