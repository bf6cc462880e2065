"""What objdump and readelf say of addresses in the code of an x86-64 file.

Nothing here asks lbtrace's own decoders. One sweep over the file tells most: where it finds
an instruction, and which bytes instructions read. A sweep is out of step behind data in code,
so where it finds none at an address, objdump decodes again along control flow: from a known
start of code, and from where calls and far jumps of the sweep lead.
"""

from __future__ import annotations

import itertools
import re
import subprocess
import tempfile
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from lbtrace.elf.image import Image

PREFIX = rb"(?:(?:bnd|notrack|repz|repnz|data16|addr32|[cdefgs]s|rex\S*) )*"
NO_CODE = re.compile(rb"\(bad\)|^add +%al,\(%rax\)\s*$")
JUMP = re.compile(PREFIX + rb"(j[a-z]+|loop[a-z]*|call|xbegin)(?:,p[nt])? +(?:0x)?([0-9a-f]+)\b")
END = re.compile(PREFIX + rb"(?:jmp|ljmp|ret|lret|iret|hlt|ud[012]|int3|\(bad\))")
TRANSFER = re.compile(PREFIX + rb"(?:j[a-z]+|call|ret|ljmp|lcall|loop[a-z]*)\b")
RIP = re.compile(rb"(-?0x[0-9a-f]+)?\(%rip\)(?:,%(\w+))? +# ([0-9a-f]+)")
BASED = re.compile(rb"(-?0x[0-9a-f]+)?\(%(\w+)(?:,%\w+(?:,(\d))?)?\)")
NOT_READ = re.compile(PREFIX + rb"(?:lea|nop|prefetch|clflush|bnd)")
LONG_NOP = re.compile(PREFIX + rb"nop")
OBJECT = re.compile(rb"^ +\d+: ([0-9a-f]+) +(\d+) OBJECT ", re.M)
SCALAR = re.compile(rb"(?:s[sd]|[dq]|sd2\w+|ss2\w+|broadcast\w+|pinsr\w|h[p]?[sd]|l[p][sd])$")

EXECUTABLE = 4
"""``SHF_EXECINSTR``."""

FAR = 128
"""Jumps of bytes that are no code go so far, mostly: each 16th byte is a short jump."""

REACH, CHUNK = 4 << 20, 8192
"""How far a function may go, and how much of it is decoded at once."""

HELD = 12
"""Instructions for which an address in a register is followed."""


class Line(NamedTuple):
    """An instruction: where the next one begins, and how objdump writes it."""

    behind: int
    text: bytes


class Suspect(NamedTuple):
    """Why no probe should stand at an address."""

    address: int
    why: str


def parse(command: Sequence[str]) -> Iterator[tuple[int, bytes]]:
    """The addresses and texts of a disassembly."""
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for line in process.stdout:
            address, tab, text = line.partition(b":\t")
            if tab:
                yield int(address, 16), text
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)


def sweep(path: str) -> Iterator[tuple[int, bytes]]:
    """The instructions of a file, as objdump sweeps over them."""
    return parse(["objdump", "-d", "-w", "-z", "--no-show-raw-insn", path])


def objects(path: str) -> list[range]:
    """Data that has symbols."""
    listed = subprocess.run(["readelf", "-sW", path], capture_output=True, check=True).stdout
    starts = ((int(m[1], 16), int(m[2])) for m in OBJECT.finditer(listed))
    return sorted((range(at, at + size) for at, size in starts), key=lambda r: r.start)


class Reads:
    """Which bytes of the code are read by instructions that come by in a sweep."""

    def __init__(self, sections: Sequence[range]) -> None:
        self._sections = sections
        self._held: dict[bytes, tuple[int, int]] = {}
        self._count = 0
        self.bytes: dict[int, int] = {}
        """By the address of each byte, that of the instruction."""
        self.tables: list[tuple[int, int]] = []
        """Where tables of distances begin, and who reads them."""

    @property
    def follows(self) -> bool:
        """Whether instructions may read by an address in a register."""
        return bool(self._held)

    def see(self, address: int, text: bytes) -> None:
        """Look at the next instruction."""
        if self._held:
            self._look(address, text)
        match = RIP.search(text)
        if match is None:
            return
        to = int(match[3], 16)
        if not any(to in section for section in self._sections):
            return
        if text.startswith(b"lea "):
            if match[2]:
                self._held[match[2]] = to, self._count + HELD
        elif not NOT_READ.match(text):
            self._mark(to, width(text), address)

    def _look(self, address: int, text: bytes) -> None:
        self._count += 1
        match = BASED.search(text)
        held = self._held.get(match[2]) if match else None
        if match and held and not NOT_READ.match(text):
            at = held[0] + int(match[1] or b"0", 16)
            if text.startswith(b"movslq") and match[3] == b"4":
                self.tables.append((at, address))
            self._mark(at, int(match[3]) if match[3] else width(text), address)
        if TRANSFER.match(text):
            self._held.clear()
            return
        for register in [r for r, (_, end) in self._held.items() if end < self._count]:
            del self._held[register]
        written = text.partition(b"#")[0].rstrip()
        for register in [r for r in self._held if written.endswith(b"%" + r)]:
            del self._held[register]

    def _mark(self, at: int, size: int, reader: int) -> None:
        for byte in range(at, at + size):
            self.bytes.setdefault(byte, reader)


def width(text: bytes) -> int:
    """How many bytes an instruction reads at least."""
    name, *_ = text.split(None, 1)
    for register, size in ((b"%zmm", 64), (b"%ymm", 32), (b"%xmm", 16)):
        if register in text:
            return 4 if SCALAR.search(name) else size
    if b"%r" in text.replace(b"%rip", b"") and not name.startswith((b"movz", b"movs")):
        return 8
    return 4 if b",%e" in text and not name.startswith((b"movz", b"movs")) else 1


class Disassembly:
    """The code of a file."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._image = Image.open(path)
        self.sections = [
            range(s.address, s.address + s.size)
            for s in self._image.sections
            if s.flags & EXECUTABLE and s.size
        ]
        self._lines: dict[int, Line] = {}
        self._reached: dict[int, Collection[int]] = {}

    def suspects(
        self, addresses: Collection[int], starts: Sequence[int]
    ) -> tuple[int, list[Suspect]]:
        """How many of ``addresses`` the sweep did not find, and which of them are no
        places for a probe. ``starts`` are those of the functions, in order."""
        reads = Reads(self.sections)
        left = set(addresses)
        found = []
        nop = 0
        for address, text in sweep(self.path):
            if nop:
                found += self._misplaced(nop, address - nop, starts)
                nop = 0
            if address in left and not NO_CODE.search(text):
                left.remove(address)
                nop = address if LONG_NOP.match(text) else 0
            if reads.follows or b"(%rip)" in text:
                reads.see(address, text)
        again = len(left)
        left = {a for a in left if a not in self.reached(starts, a, ())}
        if left:
            into = self._entries(sorted(left))
            left = {a for a in left if a not in self.reached(starts, a, into)}
        found += [Suspect(a, "objdump finds no instruction") for a in left]
        found += self._data_among(addresses, starts, reads)
        return again, sorted(found)

    def _misplaced(self, at: int, size: int, starts: Sequence[int]) -> Iterator[Suspect]:
        """A long nop, where kernels would write below the stack pointer."""
        for start in (at, at - 4):
            index = bisect_left(starts, start)
            if starts[index : index + 1] == [start]:
                return
        if size in (5, 10):
            yield Suspect(at, f"a nop of {size} bytes within a function")

    def _data_among(
        self, addresses: Collection[int], starts: Sequence[int], reads: Reads
    ) -> Iterator[Suspect]:
        known = objects(self.path)
        for table, reader in reads.tables:
            for entry in self._table(table):
                for byte in range(entry, entry + 4):
                    reads.bytes.setdefault(byte, reader)
        for address in addresses:
            index = bisect_right(known, address, key=lambda r: r.start) - 1
            if index >= 0 and address in known[index]:
                yield Suspect(address, f"in the object at {known[index].start:#x}")
            reader = reads.bytes.get(address)
            if reader is not None and reader in self.reached(starts, reader, ()):
                yield Suspect(address, f"data that the instruction at {reader:#x} reads")

    def _table(self, table: int) -> Iterator[int]:
        """The entries of a table of 32-bit distances from its beginning."""
        for entry in range(table, table + (1 << 16), 4):
            word = self._bytes(entry, 4)
            distance = int.from_bytes(word, "little", signed=True)
            if len(word) < 4 or not 0 < abs(distance) < 1 << 16:
                return
            yield entry

    def _entries(self, left: Sequence[int]) -> list[int]:
        """Where calls and far jumps of the sweep lead, shortly before addresses of ``left``."""
        entries = set()
        for address, text in sweep(self.path):
            match = JUMP.match(text)
            if match is None:
                continue
            to = int(match[2], 16)
            index = bisect_left(left, to)
            if abs(to - address) > FAR and index < len(left) and left[index] - to < CHUNK:
                entries.add(to)
        return sorted(entries)

    def reached(
        self, starts: Sequence[int], address: int, entries: Sequence[int]
    ) -> Collection[int]:
        """The instructions that control flow reaches in the function that holds ``address``."""
        index = bisect_right(starts, address) - 1
        start = starts[index] if index >= 0 else address
        end = starts[index + 1] if index + 1 < len(starts) else start + REACH
        entries = entries[bisect_left(entries, start) : bisect_right(entries, address)]
        if start in self._reached and not entries:
            return self._reached[start]
        todo = [start, *entries]
        seen: set[int] = set()
        while todo:
            at = todo.pop()
            while at not in seen and start <= at < end:
                line = self._line(at, end)
                if line is None or NO_CODE.search(line.text):
                    break
                seen.add(at)
                jump = JUMP.match(line.text)
                if jump:
                    todo.append(int(jump[2], 16))
                if END.match(line.text):
                    break
                at = line.behind
        self._reached[start] = seen
        return seen

    def _bytes(self, address: int, size: int) -> bytes:
        within = next((s for s in self.sections if address in s), range(0))
        return self._image.code(address, min(size, within.stop - address)) if within else b""

    def _line(self, address: int, end: int) -> Line | None:
        """The instruction at ``address``, whatever the sweep takes it for."""
        if address not in self._lines:
            code = self._bytes(address, min(CHUNK, end - address))
            with tempfile.NamedTemporaryFile() as file:
                file.write(code)
                file.flush()
                raw = ["objdump", "-D", "-w", "-z", "--no-show-raw-insn", "-b", "binary"]
                machine = ["-m", "i386:x86-64", f"--adjust-vma={address:#x}", file.name]
                found = [*parse(raw + machine)]
            for (at, text), (behind, _) in itertools.pairwise(found):
                self._lines.setdefault(at, Line(behind, text))
            if found and address not in self._lines:  # the last one of the function
                self._lines[address] = Line(address + len(code), found[0][1])
        return self._lines.get(address)
