"""Builds the compiled kernels where it can; everything else is in pyproject.toml."""

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

KERNELS = [
    Extension(
        f"ottla.records.{name}",
        sources=[f"src/ottla/records/{name}.pyx"],
        depends=[
            f"src/ottla/records/{part}.pxi"
            for part in (
                *("_one_record", "_murmur2", "_arrow_views"),
                *("_batch_header", "_crc32c", "_spare_memory"),
            )
        ],
        optional=True,
    )
    for name in ("_kernel", "_client_kernel", "_arrow_kernel", "_offset_kernel")
]
KERNELS += [
    Extension(f"ottla.wire.{name}", sources=[f"src/ottla/wire/{name}.pyx"], optional=True)
    for name in ("_produce_kernel", "_columns_kernel", "_group_kernel")
]


class BuildKernel(build_ext):
    """A failed build leaves the pure Python kernel in use and says so."""

    def build_extension(self, ext):
        try:
            # Without it, setuptools would look for a C file that does not exist.
            import Cython  # noqa: F401

            super().build_extension(ext)
        # A missing compiler, Cython or header file each fails in its own way; none is worth
        # failing the installation for, because the package works without the extension.
        except Exception as error:
            print(
                f"ottla: {ext.name} was not built ({type(error).__name__}: {error}); "
                "its pure Python twin will be used, which is slower",
                flush=True,
            )


setup(package_dir={"": "src"}, ext_modules=KERNELS, cmdclass={"build_ext": BuildKernel})
