"""Transactions: what is known of them, which of them hang, and how one is aborted."""
