"""Objects: immutable bytes by key, in an S3-compatible store, in PostgreSQL, or in this process.

`objects.py` is the interface; `object_format.py` what the bytes of an object look like. Reads of ranges are joined and
cached in `range_cache.py`.
"""
