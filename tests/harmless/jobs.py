"""The jobs of ``jobs.toml``."""

from __future__ import annotations

from pathlib import Path

import msgspec
import tomllib

HERE = Path(__file__).parent


class Job(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A program at work; ``jobs.toml`` says what the fields mean."""

    name: str
    package: str
    program: str
    command: tuple[str, ...]
    setup: str = "true"
    client: str = ""
    ready: str = "socket"
    ignore: tuple[str, ...] = ()
    in_place: bool = False
    libraries: tuple[str, ...] = ()
    user: str = ""
    environment: dict[str, str] = {}


def read() -> list[Job]:
    """All jobs, in the order of the file."""
    content = tomllib.loads((HERE / "jobs.toml").read_text())
    return msgspec.convert(content["job"], list[Job])
