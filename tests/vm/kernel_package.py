"""A kernel taken out of its distribution packages: the bootable image and its modules."""

from __future__ import annotations

import lzma
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from cache import OUT, digest, made, recipe
from kernels import Kernel
from packages import PackageError, Suite, unpack


@dataclass(frozen=True)
class Files:
    """An unpacked kernel: the bootable image, and its modules' directory."""

    release: str
    image: Path
    modules: Path


def fetch(kernel: Kernel) -> Files:
    """Fetch and unpack the present package of ``kernel``."""
    suite = Suite(kernel.suite, kernel.architecture)
    # From 7.x on the image, its modules and their base are packages of their own.
    parts = [p for p in suite.closure([kernel.package]) if re.match(r"linux-[a-z]+-", p.name)]
    key = digest(recipe("kernel_package.py"), *(part.file for part in parts))
    tree = made(
        OUT / "kernels" / f"{kernel.name}-{key}", lambda path: _unpack(suite.download(parts), path)
    )
    (modules,) = tree.glob("modules/*")
    return Files(modules.name, tree / "vmlinuz", modules)


def load_order(files: Files, wanted: list[str], optional: list[str]) -> list[Path]:
    """The module files that ``wanted`` needs, dependencies first.

    What is built in needs no file. Raises `PackageError` for one of
    ``wanted`` that is neither; ``optional`` ones may be missing.
    """
    present = {_module_name(path.name): path for path in files.modules.rglob("*.ko*")}
    built_in = {
        _module_name(Path(line).name)
        for line in (files.modules / "modules.builtin").read_text().splitlines()
    }
    order: dict[str, Path] = {}

    def visit(name: str) -> None:
        if name in built_in or name in order:
            return
        if name not in present:
            raise PackageError(f"kernel {files.release} has no module {name}")
        for dependency in _dependencies(module_content(present[name])):
            visit(dependency)
        order[name] = present[name]

    for name in wanted + [name for name in optional if name in present]:
        visit(name)
    return list(order.values())


def module_content(path: Path) -> bytes:
    """The ELF file that a module's file holds, compressed or not."""
    content = path.read_bytes()
    return lzma.decompress(content) if path.suffix == ".xz" else content


def _unpack(packages: list[Path], path: Path) -> None:
    with TemporaryDirectory(dir=path.parent) as directory:
        tree = Path(directory)
        unpack(packages, tree)
        path.mkdir()
        (image,) = (*tree.glob("boot/vmlinuz-*"), *tree.glob("usr/lib/modules/*/vmlinuz"))
        shutil.move(image, path / "vmlinuz")
        (modules,) = (*tree.glob("lib/modules"), *tree.glob("usr/lib/modules"))
        shutil.move(modules, path / "modules")


def _module_name(file: str) -> str:
    return file.split(".ko", maxsplit=1)[0].replace("-", "_")


def _dependencies(module: bytes) -> list[str]:
    # The section .modinfo: NUL-terminated "key=value" (include/linux/moduleparam.h).
    found = re.search(rb"\0depends=([^\0]*)\0", module)
    return [_module_name(name) for name in found[1].decode().split(",") if name] if found else []
