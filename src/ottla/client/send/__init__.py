"""From a call of `send` to a record in a batch, and the future that the caller gets."""
