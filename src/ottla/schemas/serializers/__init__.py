"""Serializers and deserializers in Confluent's wire format, for the client's options and for codecs.

`schema_serializer` and `schema_deserializer` have what the formats share: subjects, lookups, caches, framing. A module
for each format has how its schemas are read and its values written.
"""
