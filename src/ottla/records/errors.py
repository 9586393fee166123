"""Errors in the bytes of a record batch."""


class CorruptRecordsError(Exception):
    """The bytes are not a well-formed record batch; the text says why."""


class TooLargeError(CorruptRecordsError):
    """The decompressed records are larger than the reader allows."""


class UnsupportedMagicError(CorruptRecordsError):
    """The batch has magic 0 or 1, the formats from before Kafka 0.11."""

    def __init__(self, magic: int) -> None:
        super().__init__(f"record batches of magic {magic} are not supported, only magic 2")
        self.magic = magic
