"""BTF against DWARF of the same program, the kernel's against bpftool, and damage."""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbtrace.btf.prototypes import KernelTypes
from lbtrace.btf.reader import VMLINUX, Btf, BtfError, Kind, parameters
from lbtrace.btf.views import BtfView, declare
from lbtrace.dwarf.prototypes import prototypes
from lbtrace.elf import symbols
from lbtrace.elf.image import Image
from lbtrace.recognize import TOO_DEEP, Recognizer
from lbtrace.values import Type

NUMBERS = ("char", "signed char", "unsigned char", "short", "unsigned short", "int", "unsigned int",
           "long", "unsigned long", "long long", "_Bool", "float", "double")  # fmt: skip


class Types:
    """Writes random types of C."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.text: list[str] = []
        self.named: list[str] = []

    def declarator(self, name: str) -> str:
        """A declaration of ``name`` of some type."""
        dice = self.dice
        base = dice.choice([*NUMBERS, *self.named])
        return dice.choice(
            [
                f"const {base} *{name}",
                f"{base} {name}[{dice.randrange(1, 5)}]",
                f"{base} {name}[{dice.randrange(1, 4)}][{dice.randrange(1, 4)}]",
                f"{base} (*{name})({dice.choice(NUMBERS)}, void *)",
                f"struct missing *{name}",
                f"volatile {base} {name}",
                f"{base} {name}",
                f"{base} **{name}",
            ]
        )

    def make(self, number: int) -> None:
        """Another type, with a name."""
        dice = self.dice
        form = dice.randrange(5)
        if form == 0:
            values = ", ".join(f"E{number}_{n} = {dice.randrange(99)}" for n in range(3))
            self.text.append(f"enum e{number} {{ {values} }};")
            self.named.append(f"enum e{number}")
        elif form == 1 and self.named:
            self.text.append(f"typedef {dice.choice(self.named)} t{number};")
            self.named.append(f"t{number}")
        else:
            keyword = dice.choice(["struct", "struct", "union"])
            members = [self.declarator(f"m{n}") for n in range(dice.randrange(1, 6))]
            if keyword == "struct":
                wide = dice.choice(["unsigned int", "int", "unsigned char", "long"])
                members += [
                    f"{wide} b{n} : {dice.randrange(1, 8)}" for n in range(dice.randrange(4))
                ]
            inner = f"{keyword} {{ int inside; {self.declarator('other')}; }}"
            members += [dice.choice([inner, f"{inner} inner"])] * dice.randrange(2)
            packed = dice.choice(["", "", "__attribute__((packed))"])
            body = " ".join(f"{member};" for member in members)
            self.text.append(f"{keyword} {packed} s{number} {{ {body} }};")
            self.named.append(f"{keyword} s{number}")


def describe(type: Type) -> list[str]:
    """A type line by line, as the comparison of two is read. A struct that is only declared may
    be too deep in one: BTF says that it is none."""
    text = msgspec.json.format(msgspec.json.encode(type)).decode()
    return text.replace(TOO_DEEP, "").splitlines()


def section_of(file: Path) -> bytes:
    """The BTF of an object file."""
    plain = file.with_suffix(".btf")
    copy = ["objcopy", "-I", "elf64-little", "-O", "binary", "--only-section=.BTF"]
    subprocess.run([*copy, "--set-section-flags", ".BTF=alloc", file, plain], check=True)
    return plain.read_bytes()


@pytest.mark.parametrize(("number", "dwarf"), [*enumerate(("-gdwarf-5", "-gdwarf-4") * 2)])
def test_types_are_those_of_dwarf(number: int, dwarf: str, tmp_path: Path) -> None:
    seed = int(os.environ.get("LBTRACE_SEED") or random.randrange(1 << 32)) + number
    types = Types(seed)
    for each in range(20):
        types.make(each)
    functions = [
        f"long take{n}({type} *a, const char *b, {types.dice.choice(NUMBERS)} c) {{ return !a; }}"
        for n, type in enumerate(types.named)
    ]
    source = tmp_path / "types.c"
    source.write_text("\n".join([*types.text, *functions]))
    # clang writes DWARF for this processor, and BTF only for BPF.
    library, compiled = tmp_path / "types.so", tmp_path / "types.bpf.o"
    for options, made in ((f"{dwarf} -shared -fPIC", library), ("-O2 -target bpf -c", compiled)):
        subprocess.run(["clang", "-w", "-g", *options.split(), source, "-o", made], check=True)
    image = Image.open(str(library))
    taken = [f for f in image.once(symbols.read).functions if f.name.startswith("take")]
    assert len(taken) == len(functions)
    described = prototypes(image, taken, 3).found
    btf = Btf(section_of(compiled))
    for function in taken:
        (found,) = btf.find(function.name, Kind.FUNC)
        own = parameters(btf.type(btf.type(found).value))
        expected = described[function.address].parameters
        assert [name for name, _ in own] == [formal.name for formal in expected]
        for (name, type), formal in zip(own, expected, strict=True):
            made = Recognizer(3).type_of(BtfView(btf, type))
            assert describe(made) == describe(formal.type), f"seed {seed}, {name}"


def test_the_kernels_types_are_those_of_bpftool(tool: Callable[..., str]) -> None:
    btf = Btf(Path(VMLINUX).read_bytes())
    shown = json.loads(tool("bpftool", "-j", "btf", "dump", "file", VMLINUX))["types"]
    assert len(shown) == btf.count - 1
    for each in shown[:: max(1, len(shown) // 5000)]:
        type = btf.type(each["id"])
        assert type.kind.name == each["kind"]
        assert type.name == each["name"].replace("(anon)", "")
        if "size" in each:
            assert type.value == each["size"]
        if "members" in each:
            assert [member.name for member in BtfView(btf, each["id"]).members] == [
                member["name"].replace("(anon)", "") for member in each["members"]
            ]
            assert [
                8 * member.offset if not member.bits else member.first_bit
                for member in BtfView(btf, each["id"]).members
            ] == [member["bits_offset"] for member in each["members"]]

    functions = [each for each in shown if each["kind"] == "FUNC"]
    names, types = Counter(each["name"] for each in functions), KernelTypes()
    for each in functions[:: max(1, len(functions) // 500)]:
        declared = shown[each["type_id"] - 1]
        prototype = types.find(each["name"])
        if names[each["name"]] > 1:
            assert prototype is None
            continue
        assert prototype is not None
        named = [part["name"] for part in declared["params"] if part["type_id"]]
        own = [formal.name for formal in prototype.parameters]
        assert own == [n.replace("(anon)", f"arg{at}") for at, n in enumerate(named)]
        assert prototype.complete == (len(named) == len(declared["params"]))
        assert (prototype.result is None) == (not declared["ret_type_id"])


def test_kernel_functions_are_declared_as_in_c() -> None:
    btf = Btf(Path(VMLINUX).read_bytes())
    (found,) = btf.find("vfs_read", Kind.FUNC)
    written = declare(btf, btf.type(found).value, "vfs_read")
    assert written == "ssize_t vfs_read(struct file *, char *, size_t, loff_t *)"
    assert btf.find("no_such_function") == []


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    types, folder = Types(7), tmp_path_factory.mktemp("small")
    for each in range(8):
        types.make(each)
    text = "\n".join([*types.text, *(f"{t} v{n};" for n, t in enumerate(types.named))])
    (folder / "small.c").write_text(text)
    command = ["clang", "-w", "-g", "-target", "bpf", "-c", "small.c", "-o", "small.o"]
    subprocess.run(command, check=True, cwd=folder)
    return section_of(folder / "small.o")


@settings(deadline=None, max_examples=300)
@given(data=st.data())
def test_damaged_types_are_refused(small: bytes, data: st.DataObject) -> None:
    content = bytearray(small)
    for _ in range(data.draw(st.integers(1, 6))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    with suppress(BtfError):
        btf = Btf(bytes(content)[: data.draw(st.integers(0, len(content)))])
        for number in range(min(btf.count, 100)):
            Recognizer(3).type_of(BtfView(btf, number))
            declare(btf, number)
