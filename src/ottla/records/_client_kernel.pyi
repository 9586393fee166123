# The pure twin has the same signatures, which are written down there.
from ottla.records._client_kernel_py import Callbacks as Callbacks
from ottla.records._client_kernel_py import FrameMemory as FrameMemory
from ottla.records._client_kernel_py import QuickWriter as QuickWriter
from ottla.records._client_kernel_py import RecordsBuilder as RecordsBuilder
from ottla.records._client_kernel_py import RecordsReader as RecordsReader
from ottla.records._client_kernel_py import SentRecord as SentRecord
from ottla.records._client_kernel_py import free_spare_memory as free_spare_memory
from ottla.records._client_kernel_py import longest_bytes as longest_bytes
from ottla.records._client_kernel_py import murmur2 as murmur2
from ottla.records._client_kernel_py import partition_of_key as partition_of_key
from ottla.records._client_kernel_py import partitions_of_keys as partitions_of_keys
from ottla.records._client_kernel_py import whole_batches as whole_batches
