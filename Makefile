# Two commands for a fresh machine, as root: make demo, make test.
# Both install what they need and say so (build/bootstrap).

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OUT := build/out
TOOLS := cffi hatchling hypothesis iced-x86 msgspec mypy pyelftools pytest pytest-timeout \
	rich ruff rust-demangler ziglang
PYTEST := PYTHONPATH=. $(BIN)/pytest

# The kernels of `make vm-matrix` (tests/vm/kernels.py) in an order that keeps two processors
# busy, and the one of `make vm-up`.
KERNELS ?= 5.10 6.1 6.12 arm64-6.12 newest
VM_KERNEL ?= 6.12
VM := $(OUT)/vm
PROGRAMS := $(OUT)/programs-vm
MACHINES := x86_64 aarch64
BOX := $(VM)/lbtrace-$(VM_KERNEL).box
VAGRANT := VAGRANT_CWD=vagrant LBTRACE_BOX=$(or $(LBTRACE_BOX),$(abspath $(BOX))) vagrant

.PHONY: demo test test-everyday test-slow lint wheel wheels check-wheel bench build clean picture
.PHONY: vm-vagrant vm-programs vm-matrix kernels-table vm-validate vm-stage vm-up vm-test vm-destroy ci-vm

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

# Everything the tests need; every tier, but the kernel matrix (make vm-matrix, make ci-vm).
test: $(OUT)/bootstrap-test lint check-wheel test-everyday

test-everyday: build
	$(PYTEST) tests -m "not slow"

# The long matrices: all versions of Go, in all its forms.
test-slow: $(OUT)/bootstrap-test build
	$(PYTEST) tests -m slow

lint: $(VENV)/ready
	$(BIN)/ruff check lbtrace build tests vagrant
	$(BIN)/ruff format --check lbtrace build tests vagrant
	$(BIN)/mypy

# The BPF objects and the extension modules, into lbtrace/.
build: $(VENV)/ready
	@$(BIN)/python build/native.py

wheel: $(OUT)/bootstrap-build
	@rm -f $(OUT)/wheel
	@$(MAKE) --no-print-directory check-wheel

SOURCES := $(shell find lbtrace bpf_src build -name out -prune -o -name '__pycache__' -prune -o \
	-name objects -prune -o -type f ! -name '*.so' -print) pyproject.toml README.md

$(OUT)/wheel: $(SOURCES) | $(VENV)/ready
	@echo 'building the wheel'
	@$(BIN)/pip wheel -q --no-deps --no-build-isolation -w dist .
	@touch $@

# One for each machine; zig compiles across.
wheels: $(MACHINES:%=$(OUT)/wheel-%)

$(OUT)/wheel-%: $(SOURCES) | $(VENV)/ready
	@echo 'building the wheel for $*'
	@LBTRACE_MACHINE=$* $(BIN)/pip wheel -q --no-deps --no-build-isolation -w dist .
	@touch $@

# In clean virtual environments, one for each Python there is.
check-wheel: $(OUT)/wheel
	$(BIN)/python tests/wheel/check.py dist/lbtrace-*$$(uname -m).whl

# What the guests trace: they have no compiler.
vm-programs: $(OUT)/bootstrap-vm | $(VENV)/ready
	$(BIN)/python tests/vm/programs.py $(PROGRAMS) $(MACHINES)

# tests/kernel in a virtual machine for each of KERNELS; results in build/out/vm/results.
vm-matrix: wheels vm-programs
	$(BIN)/python tests/vm/matrix.py --jobs 2 --kernels "$(KERNELS)" \
	    $(foreach machine,$(MACHINES),--wheel dist/lbtrace-*_$(machine).whl) --programs $(PROGRAMS)

# docs/kernels.md, from the results.
kernels-table: | $(VENV)/ready
	$(BIN)/python tests/vm/table.py $(VM)/results docs/kernels.md

$(BOX): $(OUT)/bootstrap-vagrant vagrant/make_box.py | $(VENV)/ready
	$(BIN)/python vagrant/make_box.py --kernel $(VM_KERNEL) $@
	vagrant/forget $@

# A Vagrant machine with the wheel installed; LBTRACE_DRIVER=qemu where KVM does not work,
# LBTRACE_BOX for another box than one of packages.
vm-up: vm-stage $(if $(LBTRACE_BOX),$(OUT)/bootstrap-vagrant,$(BOX))
	vagrant/libvirt
	$(VAGRANT) up --provider=libvirt

vm-stage: wheels vm-programs
	$(BIN)/python vagrant/stage.py --wheel dist/lbtrace-*_x86_64.whl --programs $(PROGRAMS)/x86_64 \
	    --kernel $(VM_KERNEL)

vm-test: vm-stage
	$(VAGRANT) rsync
	$(VAGRANT) provision --provision-with install,test

vm-destroy:
	$(VAGRANT) destroy -f

vm-validate: $(OUT)/bootstrap-vagrant
	$(VAGRANT) validate

# All of it, as CI runs it.
ci-vm: vm-matrix vm-validate vm-vagrant

# A machine comes up, runs the tests and goes.
vm-vagrant:
	export LBTRACE_DRIVER=$${LBTRACE_DRIVER:-qemu}; status=0; \
	$(MAKE) vm-up && $(VAGRANT) provision --provision-with test || status=1; \
	$(MAKE) vm-destroy || status=1; exit $$status

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
	rm -rf $(OUT) $(VENV) dist lbtrace/bpf/objects lbtrace/*/_*.abi3.so

# docs/fib.svg, from what lbtrace prints on a terminal.
picture: build
	$(BIN)/python docs/picture.py
