"""How a client says who it is and whom it trusts, without IO."""
