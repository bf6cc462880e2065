"""Opens capture files, whole or damaged."""

from __future__ import annotations

import os
import shlex
import stat
from typing import BinaryIO

from lbtrace.capture.reading import RECORD, Capture
from lbtrace.errors import CaptureError
from lbtrace.validation import check_boolean, check_path

COMPRESSED = {
    b"\x1f\x8b": "gzip",
    b"\xfd7zXZ\0": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bzip2",
    b"\x04\x22\x4d\x18": "lz4",
}
"""How compressed files begin, and the program that decompresses each (``-dc``)."""


def read_capture(path: str | os.PathLike[str], *, salvage: bool = False) -> Capture:
    """Open a capture, the file that ``lbtrace attach -o NAME.lbt`` wrote, and read its plan.

    Raises `UsageError` where an argument is of a wrong type, `CaptureError` when the file cannot
    be read, is no capture, is of a newer version, or has no sound plan. Damage after the plan is
    no error: the calls end there and ``complete`` stays False. With ``salvage`` reading continues
    after damage.
    """
    path = check_path("path", path, 'give the path of a capture: read_capture("run.lbt")')
    check_boolean("salvage", salvage)
    try:
        file = open(path, "rb", opener=_open_at_once)  # noqa: SIM115 - Capture closes it
    except OSError as error:
        denied = isinstance(error, PermissionError)
        hint = "read it as its owner" if denied else "give the path of a capture (.lbt)"
        if path == "-":
            hint = "a capture is read from a file, not from standard input: write it to one first"
        raise CaptureError(f"{path} cannot be read: {error.strerror}", hint) from error
    status = os.fstat(file.fileno())
    try:
        if not stat.S_ISREG(status.st_mode):
            raise CaptureError(f"{path} is not a regular file", "copy the capture to a file first")
        if salvage:
            # Imported here because few captures are damaged.
            from lbtrace.capture.salvage import SalvagedCapture

            return SalvagedCapture(path, file, status.st_size)
        return Capture(path, file, status.st_size)
    except CaptureError as error:
        if error.hint == RECORD and (program := _compressed_by(file)):
            file.close()
            raise CaptureError(
                f"{path} is compressed by {program}",
                f"decompress it first: {program} -dc < {shlex.quote(path)} > NAME.lbt",
            ) from None
        file.close()
        raise
    except BaseException:
        file.close()
        raise


def _compressed_by(file: BinaryIO) -> str:
    """The program that has compressed a file, by its first bytes; empty where none has."""
    file.seek(0)
    beginning = file.read(max(map(len, COMPRESSED)))
    return next((name for magic, name in COMPRESSED.items() if beginning.startswith(magic)), "")


def _open_at_once(path: str, flags: int) -> int:
    """Open without waiting for the other end of a FIFO."""
    return os.open(path, flags | os.O_NONBLOCK)
