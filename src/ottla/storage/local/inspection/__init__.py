"""Reading files without trusting them and without changing them: for `ottla log dump` and for recovery."""
