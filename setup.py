"""The C extension; everything else about the package is in pyproject.toml.

`optional`: where there is no compiler the package installs without it, and says so when an engine needs it."""

from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

FOLDER = Path("ginnacer_verify/native")
SOURCES = sorted(str(path) for path in FOLDER.glob("*.c"))
HEADERS = sorted(str(path) for path in FOLDER.glob("*.h"))
FLOATS = ["-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math", "-fno-signed-zeros"]
UNIX = ["-std=c99", "-O3", "-g0", "-fvisibility=hidden", "-Wno-psabi", *FLOATS]
"""None of them lets the compiler assume that numbers are finite: a NaN must go on proving nothing."""


class Build(build_ext):
    def build_extensions(self) -> None:
        for extension in self.extensions:
            extension.extra_compile_args = UNIX if self.compiler.compiler_type == "unix" else ["/O2"]
        super().build_extensions()


class Wheel(bdist_wheel):
    def get_tag(self) -> tuple[str, str, str]:
        """One wheel for every Python from 3.11 on: the extension keeps to the limited API."""
        python, abi, system = super().get_tag()
        return ("cp311", "abi3", system) if python.startswith("cp") else (python, abi, system)


setup(
    ext_modules=[
        Extension(
            "ginnacer_verify.native.kernels", SOURCES, depends=HEADERS, py_limited_api=True, optional=True, language="c"
        )
    ],
    cmdclass={"build_ext": Build, "bdist_wheel": Wheel},
)
