"""What schemas mean: parsing, canonical texts, and whether one schema can read what another one has written.

In here: Avro, JSON Schema and Protobuf, each with the rules of Confluent's registry, without IO. Not in here: subjects,
versions and levels, which are the registry's; and serializers.
"""
