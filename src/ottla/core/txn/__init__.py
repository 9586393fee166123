"""Transaction coordination: a pure state machine over the events of a `__transaction_state` partition."""
