"""`ottla storage`: the storage that brokers share."""
