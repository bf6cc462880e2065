# Two commands for a fresh machine, as root: make demo, make test.
# Both install what they need and say so (build/bootstrap).

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OUT := build/out
TOOLS := cffi hatchling hypothesis iced-x86 msgspec mypy pyelftools pytest pytest-timeout rich ruff ziglang
PYTEST := PYTHONPATH=. $(BIN)/pytest

.PHONY: demo test test-everyday lint wheel check-wheel bench build clean

demo: $(OUT)/bootstrap-build $(OUT)/demo/bin/lbtrace $(OUT)/demo/fib
	@echo; echo '$$ lbtrace attach --func fib -- ./fib 4'
	@cd $(OUT)/demo && bin/lbtrace attach --func fib -- ./fib 4
	@echo; echo '$$ lbtrace attach --func fib --format racket -- ./fib 4'
	@cd $(OUT)/demo && bin/lbtrace attach --func fib --format racket -- ./fib 4

$(OUT)/demo/fib: tests/programs/fib.c
	gcc -O1 -g $< -o $@

$(OUT)/demo/bin/lbtrace: $(OUT)/wheel
	@echo 'installing the wheel into $(OUT)/demo'
	@$(PYTHON) -m venv --clear $(OUT)/demo
	@$(OUT)/demo/bin/pip install -q dist/lbtrace-*$$(uname -m).whl

# Everything the tests need; every tier, but the kernel matrix (make vm-matrix).
test: $(OUT)/bootstrap-test lint check-wheel test-everyday

test-everyday: build
	$(PYTEST) tests -m "not slow"

lint: $(VENV)/ready
	$(BIN)/ruff check lbtrace build tests
	$(BIN)/ruff format --check lbtrace build tests
	$(BIN)/mypy

# The BPF objects and the extension module, into lbtrace/bpf/.
build: $(VENV)/ready
	@$(BIN)/python build/native.py

wheel: $(OUT)/bootstrap-build
	@rm -f $(OUT)/wheel
	@$(MAKE) --no-print-directory $(OUT)/wheel

SOURCES := $(shell find lbtrace bpf_src build -name out -prune -o -name '__pycache__' -prune -o \
	-name objects -prune -o -type f ! -name '*.so' -print) pyproject.toml README.md

$(OUT)/wheel: $(SOURCES) | $(VENV)/ready
	@echo 'building the wheel'
	@$(BIN)/pip wheel -q --no-deps --no-build-isolation -w dist .
	@touch $@

# In clean virtual environments, one for each Python there is.
check-wheel: $(OUT)/wheel
	$(BIN)/python tests/wheel/check.py dist/lbtrace-*$$(uname -m).whl

bench: $(OUT)/bootstrap-bench build
	PYTHONPATH=. $(BIN)/python tests/bench/run.py

$(OUT)/bootstrap-%: build/bootstrap
	@mkdir -p $(OUT)
	@PYTHON=$(PYTHON) build/bootstrap $*
	@touch $@

$(VENV)/ready: Makefile | $(OUT)/bootstrap-build
	@echo 'setting up $(VENV)'
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install -q $(TOOLS)
	@touch $@

clean:
	rm -rf $(OUT) $(VENV) dist lbtrace/bpf/objects lbtrace/bpf/_libbpf.abi3.so

# docs/fib.svg, from what lbtrace prints on a terminal.
picture: build
	$(BIN)/python docs/picture.py
