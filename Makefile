# Two commands for a fresh machine, as root: make demo, make test.
# Both install what they need and say so (build/bootstrap).

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OUT := build/out
PYTEST := PYTHONPATH=. $(BIN)/pytest

# The kernels of `make vm-matrix` (tests/vm/kernels.py) in an order that keeps two processors
# busy, and the one of `make vm-up`.
KERNELS ?= 5.10 6.1 6.12 arm64-6.12 newest
VM_KERNEL ?= 6.12
VM := $(OUT)/vm
PROGRAMS := $(OUT)/programs-vm
SMOKE := $(OUT)/programs-smoke
MACHINES := x86_64 aarch64
BOX := $(VM)/lbtrace-$(VM_KERNEL).box
VAGRANT := VAGRANT_CWD=vagrant LBTRACE_BOX=$(or $(LBTRACE_BOX),$(abspath $(BOX))) vagrant

.PHONY: demo test test-everyday test-slow
.PHONY: checks-table sites harmless lines fuzz debian lint
.PHONY: wheel wheels check-wheel bench build pin clean picture
.PHONY: vm-vagrant vm-programs vm-smoke vm-matrix kernels-table vm-validate vm-stage vm-up vm-test vm-destroy ci-vm

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
	@$(OUT)/demo/bin/pip install -q --no-compile dist/lbtrace-*$$(uname -m).whl

# Everything the tests need; all tests but the long ones (make test-slow, make vm-matrix).
test: $(OUT)/bootstrap-test
	@$(MAKE) --no-print-directory --output-sync --jobs 2 lint check-wheel
	@$(MAKE) --no-print-directory test-everyday

# Several at once; what fails runs once more.
test-everyday: build
	$(BIN)/python -m tests.runs.everyday

# The long matrices: all versions of Go in all its forms, samples of the checks below.
test-slow: $(OUT)/bootstrap-test $(OUT)/bootstrap-slow build
	$(PYTEST) tests -m slow

# The long checks, each kept with its result: check-all, or check-NAME (tests/runs/checks.py).
check-%:
	$(PYTHON) -m tests.runs.checks --with '$(MAKEOVERRIDES)' $*

# The results, also into docs/development.md.
checks-table:
	@$(PYTHON) -m tests.runs.checks --table docs/development.md

# Real programs, untraced and traced: all of tests/harmless. It goes on from its log of the commit.
harmless: $(OUT)/bootstrap-slow build
	@mkdir -p $(OUT)/checks
	$(BIN)/python tests/harmless/compare.py \
	    --log $(OUT)/checks/harmless-$$(git describe --always --dirty --exclude '*').log

# Fuzzing with coverage, FUZZ_SECONDS for each reader; what is found is kept in $(OUT)/fuzz.
FUZZ_SECONDS ?= 600
FUZZERS := elf frames pclntab debug capture expressions names
fuzz: $(OUT)/bootstrap-test build
	@mkdir -p $(OUT)/fuzz
	$(BIN)/python tests/fuzz/native.py $(OUT)/fuzz
	@set -e; cd $(OUT)/fuzz; for name in $(FUZZERS); do echo "fuzzing $$name"; \
	    PYTHONPATH=$(CURDIR) $(CURDIR)/$(BIN)/python $(CURDIR)/tests/fuzz/fuzz.py $$name \
	        $(FUZZ_SECONDS) corpus-$$name 2>$$name.log || { tail -40 $$name.log; exit 1; }; done; \
	for name in reader demangler symbol_table flow; do echo "fuzzing $$name"; mkdir -p corpus-$$name; \
	    ./$$name -max_total_time=$(FUZZ_SECONDS) -timeout=10 corpus-$$name 2>$$name.log \
	        || { tail -40 $$name.log; exit 1; }; done; \
	cat *.log | awk '/^Done [0-9]+ runs/ { readers++; runs += $$2 } \
	    END { printf "figures: %d readers, %d inputs, none harmful\n", readers, runs }'

# Every site that plans of whole packages have, against objdump; takes an hour.
sites: $(OUT)/bootstrap-test build
	PYTHONPATH=. nice $(BIN)/python tests/check_sites.py --jobs 2

# Variables at lines of real programs, against gdb; takes hours.
lines: $(OUT)/bootstrap-test build
	PYTHONPATH=. $(BIN)/python tests/lines_programs.py

# The gate on a fresh minimal Debian.
debian: $(OUT)/bootstrap-debian
	$(PYTHON) tests/runs/debian.py

lint: $(VENV)/ready
	@$(BIN)/python build/limits.py
	$(BIN)/ruff check lbtrace build tests vagrant
	$(BIN)/ruff format --check lbtrace build tests vagrant
	$(BIN)/mypy

# The BPF objects and the extension modules, into lbtrace/.
build: $(VENV)/ready
	@$(BIN)/python build/native.py
	@$(BIN)/python -m compileall -q lbtrace

wheel: $(OUT)/bootstrap-build
	@rm -f $(OUT)/wheel
	@$(MAKE) --no-print-directory check-wheel

SOURCES := $(shell find lbtrace bpf_src build -name out -prune -o -name '__pycache__' -prune -o \
	-name objects -prune -o -type f ! -name '*.so' -print) pyproject.toml README.md NOTICE $(wildcard licenses/*)

$(OUT)/wheel: $(SOURCES) | build
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
vm-programs: $(OUT)/bootstrap-vm build
	PYTHONPATH=. $(BIN)/python tests/vm/programs.py $(PROGRAMS) $(MACHINES)

# A few minutes, also where nothing was built and where there is no KVM: the oldest kernel and 6.1
# with the tests of tests/vm/smoke.py, the newest with a few; results in build/out/vm/results/smoke.
vm-smoke: $(OUT)/bootstrap-smoke $(OUT)/wheel
	PYTHONPATH=. $(BIN)/python tests/vm/programs.py $(SMOKE) x86_64 \
	    --only $$($(BIN)/python tests/vm/smoke.py programs)
	LBTRACE_READBACK=0 $(BIN)/python tests/vm/matrix.py --kernels "5.10 6.1" --limit 900 --results $(VM)/results/smoke \
	    --wheel dist/lbtrace-*_x86_64.whl --programs $(SMOKE) \
	    --select "$$($(BIN)/python tests/vm/smoke.py tests)"
	LBTRACE_READBACK=0 $(BIN)/python tests/vm/matrix.py --kernels newest --limit 400 --results $(VM)/results/smoke \
	    --wheel dist/lbtrace-*_x86_64.whl --programs $(SMOKE) \
	    --select "$$($(BIN)/python tests/vm/smoke.py newest)"

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

# All that runs in virtual machines.
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

# Newer versions of the tools, each with its hashes, for every Python and machine.
pin: | $(VENV)/ready
	@$(PYTHON) -m venv $(OUT)/uv && $(OUT)/uv/bin/pip install -q uv
	$(OUT)/uv/bin/uv pip compile -q --upgrade --universal --python-version 3.10 --generate-hashes \
	    --no-header --no-annotate --no-emit-index-url --no-emit-find-links --system-certs \
	    build/requirements.in -o build/requirements.txt
	@sed -i '1i # Made from requirements.in by "make pin". pip refuses whatever has another hash.' \
	    build/requirements.txt

$(VENV)/ready: build/requirements.txt | $(OUT)/bootstrap-build
	@echo 'setting up $(VENV)'
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install -q --no-compile --require-hashes -r build/requirements.txt
	@touch $@

clean:
	rm -rf $(OUT) $(VENV) dist lbtrace/bpf/objects lbtrace/commands/shells lbtrace/*/tables lbtrace/*/_*.abi3.so

# docs/fib.svg, from what lbtrace prints on a terminal.
picture: build
	$(BIN)/python docs/picture.py
