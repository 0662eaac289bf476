"""The version: that of the tag, as the build wrote it into what is installed."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("scalewise")
except PackageNotFoundError:  # the sources on the path, and nothing installed
    __version__ = "0+unknown"
