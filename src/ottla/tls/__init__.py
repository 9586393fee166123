"""TLS by Kafka's options, for clients and listeners alike: stores of keys and certificates, and contexts of `ssl`.

The options are in `config.tls`; connections are made elsewhere.
"""
