"""Record batches: encoding and decoding, checksums, compression, control records, Arrow columns.

The three kernels do the work per record. Each is compiled (`_kernel.pyx`) and has a twin in pure Python
(`_kernel_py.py`) with the same results; `kernel.py` and the like choose one. Nothing here does IO.
"""
