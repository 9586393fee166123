# The pure twin has the same signatures, which are written down there.
from ottla.records._arrow_kernel_py import ColumnsBuilder as ColumnsBuilder
from ottla.records._arrow_kernel_py import SectionsEncoder as SectionsEncoder
from ottla.records._arrow_kernel_py import free_spare_memory as free_spare_memory
from ottla.records._arrow_kernel_py import repeated_numbers as repeated_numbers
