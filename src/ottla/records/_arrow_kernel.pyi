# The pure twin has the same signatures, which are written down there.
from ottla.records._arrow_kernel_py import ColumnsBuilder as ColumnsBuilder
from ottla.records._arrow_kernel_py import SectionsEncoder as SectionsEncoder
