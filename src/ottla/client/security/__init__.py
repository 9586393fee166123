"""SASL mechanisms and TLS settings of clients, without IO."""
