"""Go's function tables, against nm(1) and among builds of one source."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from lbtrace.elf import symbols
from lbtrace.elf.go import build, pclntab
from lbtrace.elf.image import Image
from lbtrace.errors import BinaryError, NoMatchError
from lbtrace.plan import Selection, make_plan, own_functions
from lbtrace.plan.functions import select
from lbtrace.plan.patterns import BinarySymbols

EVERYDAY = ("1.15", "1.27.3")
OTHERS = ("1.19", "1.21.13", "1.24.11", "1.25.5", "1.26.6")
VERSIONS = [*EVERYDAY, *(pytest.param(v, marks=pytest.mark.slow) for v in OTHERS)]
NAMED = ["plain", "pie", "cgo", *[pytest.param("static-pie", marks=pytest.mark.slow)]]
Compile = Callable[..., Path]


def nm(path: Path) -> dict[int, set[str]]:
    """The symbols in code, by address."""
    done = subprocess.run(["nm", path], capture_output=True, text=True, check=True)
    found: dict[int, set[str]] = {}
    for line in done.stdout.splitlines():
        address, kind, name = line[:16].strip(), line[17:18], line[19:]
        if address and kind in "tT":
            found.setdefault(int(address, 16), set()).add(name)
    return found


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", NAMED)
def test_names_and_addresses_are_those_of_nm(go_program: Compile, version: str, kind: str) -> None:
    path = go_program("fib", version, kind)
    image = Image.open(str(path))
    table = pclntab.read(image)
    assert table is not None
    named = nm(path)
    for function in table.functions:
        # nm shows conventions and type arguments, the table does not.
        names = {n.removesuffix(".abi0").replace("·", ".") for n in named[function.address]}
        name = function.name.replace("·", ".")
        assert name in names or "[...]" in function.name, function
    listed = {f.address: f for f in symbols.read(image).functions}
    labels = {"runtime.text", "runtime.etext", "_start", *pclntab.UNNAMED}
    missing = [n for a, n in named.items() if table.start <= a < table.end and a not in listed]
    # All that nm names beyond that are wrappers between conventions.
    listed_names = {n.removesuffix(".abi0") for f in listed.values() for n in (f.name, *f.aliases)}
    beyond = {n.removesuffix(".abi0") for names in missing for n in names}
    assert beyond - labels <= listed_names


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", ["plain", "pie", "cgo"])
def test_stripping_takes_nothing(go_program: Compile, version: str, kind: str) -> None:
    other = "stripped" if kind == "plain" else f"{kind}-stripped"
    whole, stripped = (
        pclntab.read(Image.open(str(go_program("fib", version, k)))) for k in (kind, other)
    )
    assert whole is not None
    assert stripped is not None
    assert [*whole.functions] == [*stripped.functions]
    assert whole.inlined == stripped.inlined


@pytest.mark.parametrize("version", VERSIONS)
def test_own_functions_without_debug_information(go_program: Compile, version: str) -> None:
    image = Image.open(str(go_program("fib", version, "stripped")))
    own = [each for each in own_functions.find([image], Selection()) if not isinstance(each, str)]
    assert {function.name.partition(".")[0] for function in own} == {"main"}


@pytest.mark.parametrize("version", VERSIONS)
def test_version(go_program: Compile, version: str) -> None:
    for kind in ("plain", "stripped", "pie", "cgo-stripped"):
        image = Image.open(str(go_program("fib", version, kind)))
        assert build.is_go(image)
        assert build.version_text(image).startswith(f"go{version}")
        assert build.version(image) == tuple(map(int, version.split(".")[:2]))


@pytest.mark.parametrize("version", VERSIONS)
def test_an_inlined_function_is_named_as_such(go_program: Compile, version: str) -> None:
    for kind in ("plain", "stripped"):
        table = symbols.read(Image.open(str(go_program("fib", version, kind))))
        with pytest.raises(NoMatchError, match=r"main\.double: is inlined everywhere"):
            [*select([BinarySymbols("fib", table)], "main.double")]
    with pytest.raises(NoMatchError, match="is inlined everywhere") as caught:
        make_plan(str(go_program("fib", version, "plain")), Selection(("double",)))
    assert "it was inlined in main." in caught.value.hint


@pytest.mark.parametrize("version", ["1.27.3", pytest.param("1.15", marks=pytest.mark.slow)])
def test_libraries_for_c(go_program: Compile, version: str) -> None:
    library = go_program("library", version, "shared")
    named = nm(library)
    for kind in ("shared", "shared-stripped"):
        table = symbols.read(Image.open(str(go_program("library", version, kind))))
        functions = {f.name: f for f in table.functions}
        assert "Twice" in functions
        if kind == "shared":
            assert "main.helper" in named[functions["main.helper"].address]
            assert "Twice" in named[functions["Twice"].address]
        assert table.go is not None
        assert {"main.helper", "runtime.main"} <= {f.name for f in table.go.functions}


def test_other_programs_are_not_go() -> None:
    image = Image.open("bash")
    assert not build.is_go(image)
    assert pclntab.read(image) is None
    assert build.version(image) == (0, 0)


@pytest.mark.parametrize("package", [pytest.param("hugo", marks=pytest.mark.slow), "etcd-server"])
def test_stripped_programs_of_debian_list_by_name(go: ModuleType, package: str) -> None:
    image = Image.open(str(go.program(package)))
    names = {f.name for f in symbols.read(image).functions}
    assert {"main.main", "net/http.(*conn).serve", "runtime.main"} <= names
    assert len(names) > 20_000


@pytest.mark.parametrize("where", [0, 4, 8, 16, 24, 40, 64, 200])
def test_a_damaged_table_is_an_error_or_harmless(
    go_program: Compile, tmp_path: Path, where: int
) -> None:
    source = go_program("fib", "1.27.3", "stripped")
    data = bytearray(source.read_bytes())
    section = Image.open(str(source)).section(".gopclntab")
    assert section is not None
    data[section.offset + where : section.offset + where + 8] = b"\xff" * 8
    damaged = tmp_path / "damaged"
    damaged.write_bytes(data)
    with contextlib.suppress(BinaryError):
        table = pclntab.read(Image.open(str(damaged)))
        assert table is not None
        assert len(table.functions) == len([*table.functions])
        assert all(type(table.funcdata(f.address, 5)) in (int, type(None)) for f in table.functions)
