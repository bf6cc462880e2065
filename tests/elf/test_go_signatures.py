"""Signatures of Go functions, as their sources in tests/programs/go have them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lbtrace.plan import Selection, make_plan

Compile = Callable[..., Path]
OTHERS = ("1.19", "1.24.11")
VERSIONS = ["1.27.3", *(pytest.param(v, marks=pytest.mark.slow) for v in ("1.15", *OTHERS))]

TYPES = """\
func main.small(a int8, b uint8, c int16, d uint16, e int32, f uint32) int64
func main.text(s string, n int) string
func main.floats(x float64, n int, y float32, m uint8) float64
func main.point(p main.Point, n main.Named) main.Point
func main.big(b main.Big, n int) (main.Big, int)
func main.slice(v []int, w []string) int
func main.maps(m map[string]int, c chan int) int
func main.several(n int) (int, string, error)
func main.named(n int) (sum int, ok bool)
func main.face(v interface {}, e error) int
func (p *main.Point) Move(dx int32, dy int32) int32  = main.(*Point).Move
func (p main.Point) Sum(n int) int  = main.Point.Sum
func main.main()
"""

SERVER = """\
func (a *main.app) ServeHTTP(w http.ResponseWriter, r *http.Request)  = main.(*app).ServeHTTP
func (c *http.Client) Get(url string) (resp *http.Response, err error)  = net/http.(*Client).Get
func fmt.Fprintln(w io.Writer, a []interface {}) (n int, err error)
"""


INLINED = """\
func (http.noBody) Read([]uint8) (int, error)  = net/http.noBody.Read
func (c http.ConnState) String() string  = net/http.ConnState.String
func net/http.validCookieValueByte(b uint8) bool
"""


def listed(program: Path, *patterns: str) -> list[str]:
    functions = [word for pattern in patterns for word in ("--func", pattern)]
    command = [sys.executable, "-m", "lbtrace", "list", "--binary", program, *functions]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = (line.partition("  at ")[0] for line in done.stdout.splitlines())
    return [line.split(maxsplit=2)[2] for line in lines]


@pytest.mark.parametrize("version", VERSIONS)
def test_functions_and_methods(go_program: Compile, version: str) -> None:
    assert set(TYPES.splitlines()) <= set(listed(go_program("types", version), "main.*"))
    names = ("main.(*app).ServeHTTP", "net/http.(*Client).Get", "fmt.Fprintln")
    assert sorted(listed(go_program("server", version), *names)) == sorted(SERVER.splitlines())


def test_instances_of_generic_functions(go_program: Compile) -> None:
    """Their dictionary is the compiler's own parameter."""
    found = listed(go_program("generic", "1.27.3"), "main.*")
    assert (
        "func (s *main.Stack[go.shape.string]) Push(x go.shape.string) int"
        "  = main.(*Stack[go.shape.string]).Push"
    ) in found
    assert "func main.main.func1(x int) string" in found
    assert not [line for line in found if ".dict" in line]


def test_functions_that_are_also_inlined(go_program: Compile) -> None:
    """Debug information has their results, and parameters without a name, elsewhere."""
    names = ("noBody.Read", "ConnState.String", "validCookieValueByte")
    found = listed(go_program("server", "1.27.3"), *(f"net/http.{name}" for name in names))
    assert sorted(found) == sorted(INLINED.splitlines())


def debug_of(program: Path) -> Path:
    """The debug information of ``program``, which is stripped and has a link to it."""
    debug = program.with_suffix(".debug")
    subprocess.run(["objcopy", "--only-keep-debug", program, debug], check=True)
    subprocess.run(["strip", program], check=True)
    subprocess.run(["objcopy", f"--add-gnu-debuglink={debug}", program], check=True)
    return debug


@pytest.mark.parametrize("version", [pytest.param("1.19", marks=pytest.mark.slow), "1.27.3"])
def test_debug_information_in_a_file_apart(
    go_program: Compile, version: str, tmp_path: Path
) -> None:
    program = Path(shutil.copy(go_program("types", version), tmp_path / "types"))
    whole = listed(program, "main.*")
    debug = debug_of(program)
    assert listed(program, "main.*") == whole
    plan = make_plan(str(program), Selection(("main.small",)))
    assert all(function.typed for function in plan.functions)
    debug.write_bytes(Path(go_program("fib", version)).read_bytes())
    assert listed(program, "main.small") == ["main.small"]
    plan = make_plan(str(program), Selection(("main.small",)))
    assert [note for note in plan.notes if str(debug) in note and "another build" in note]


@pytest.mark.parametrize("kind", ["stripped", pytest.param("pie-stripped", marks=pytest.mark.slow)])
def test_without_types_the_name_remains(go_program: Compile, kind: str) -> None:
    assert "main.fib" in listed(go_program("fib", "1.27.3", kind), "main.*")
