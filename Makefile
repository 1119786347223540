# make demo, make test, make lint, make sanitize, make fuzz, make report, make bench: each sets up what it needs in .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := $(shell find native CMakeLists.txt pyproject.toml -type f)

.PHONY: demo test lint format sanitize report bench clean

# The package is installed in editable mode: changes to Python files take effect at once, changes to native ones here.
$(VENV)/.package: $(SOURCES)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "building the package and installing what it needs: a minute or two"
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable .
	cp $(VENV)/lib/python3*/site-packages/symsgd/_core.pyi src/symsgd/  # where mypy looks for it
	touch $@

$(VENV)/.dev: $(VENV)/.package
	$(BIN)/python -m pip install --quiet --group dev
	touch $@

# The extra `peers`, one at a time: a library that does not install here is one that is not compared with.
PEERS := vowpalwabbit>=9.11 liblinear-official>=2.50 snapml>=1.17 xlearn>=0.40a1
APART := $(VENV)/peers/liblinear-multicore

$(VENV)/.bench: $(VENV)/.package
	$(BIN)/python -m pip install --quiet --group bench
	@for peer in $(PEERS:%='%'); do \
	    $(BIN)/python -m pip install --quiet "$$peer" || echo "$$peer does not install here: it is skipped"; done
	@$(BIN)/python -m pip install --quiet --no-deps --upgrade --target $(APART) liblinear-multicore \
	    || echo "liblinear-multicore does not install here: it is skipped"
	touch $@

demo: $(VENV)/.package
	$(BIN)/python -m symsgd.bench.demo

test: lint
	$(BIN)/python -m pytest -n 2

lint: $(VENV)/.dev
	$(BIN)/ruff check src tests
	$(BIN)/ruff format --check src tests
	$(BIN)/mypy
	find native -name '*.hpp' -o -name '*.cpp' | xargs $(BIN)/clang-format --dry-run --Werror

format: $(VENV)/.dev
	$(BIN)/ruff check --fix src tests
	$(BIN)/ruff format src tests
	find native -name '*.hpp' -o -name '*.cpp' | xargs $(BIN)/clang-format -i

# The core without Python and a driver of all strategies (native/tests), under ThreadSanitizer, then under
# AddressSanitizer and UBSan. Minutes of compiling, and as many of running.
CMAKE := $(or $(shell command -v cmake 2>/dev/null),$(BIN)/cmake)
JOBS ?= $(shell getconf _NPROCESSORS_ONLN)
# older runtimes of the thread sanitizer do not start where addresses are spread too widely
FIXED_ADDRESSES := $(shell setarch -R true 2>/dev/null && echo setarch -R)

SANITIZED := build/sanitize-thread build/sanitize-address

sanitize: $(SANITIZED)
	$(FIXED_ADDRESSES) build/sanitize-thread/sanitize
	SYMSGD_ISA=baseline build/sanitize-address/sanitize
	build/sanitize-address/sanitize  # the widest kernels this machine has

.PHONY: $(SANITIZED)
$(SANITIZED): build/sanitize-%: $(CMAKE)
	$(CMAKE) -S . -B $@ -DSYMSGD_PYTHON=OFF -DSYMSGD_SANITIZE=$*
	$(CMAKE) --build $@ --parallel $(JOBS)

$(BIN)/cmake:
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet cmake

# Everything that reads files, for FUZZ_SECONDS each: native code under a fuzzer and AddressSanitizer, Python's readers
# under atheris where there are wheels of it, stores damaged at random; and writers killed at random moments. What is found
# is left in build/fuzz.
FUZZ_SECONDS ?= 30
NATIVE_FUZZED := svmlight vowpal mapping rows
PYTHON_FUZZED := store models checkpoints tables matrices
FUZZ_SCRIPTS := fuzz_store kill_store kill_training
FUZZ_CXX ?= $(or $(shell command -v clang++ 2>/dev/null),$(CXX))
FUZZ_OPTIONS := -max_total_time=$(FUZZ_SECONDS) -timeout=10 -print_final_stats=1

.PHONY: fuzz build/fuzz $(NATIVE_FUZZED:%=fuzz-native-%) $(PYTHON_FUZZED:%=fuzz-python-%) $(FUZZ_SCRIPTS:%=run-%)
fuzz: $(NATIVE_FUZZED:%=fuzz-native-%) $(PYTHON_FUZZED:%=fuzz-python-%) $(FUZZ_SCRIPTS:%=run-%)

build/fuzz: $(CMAKE)
	$(CMAKE) -S . -B $@ -DSYMSGD_FUZZ=ON -DCMAKE_CXX_COMPILER=$(FUZZ_CXX)
	$(CMAKE) --build $@ --parallel $(JOBS)

$(NATIVE_FUZZED:%=fuzz-native-%): fuzz-native-%: build/fuzz
	mkdir -p build/fuzz/found/$*
	cd build/fuzz && ./fuzz_$* $(FUZZ_OPTIONS) -dict=../../native/fuzz/words.dict found/$* ../../native/fuzz/seeds/$*

$(VENV)/.fuzz: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --group fuzz || echo "no atheris here: Python's readers are fuzzed at random"
	touch $@

$(PYTHON_FUZZED:%=fuzz-python-%): fuzz-python-%: $(VENV)/.fuzz
	mkdir -p build/fuzz/found/python-$*
	cd build/fuzz && PYTHONPATH=../../tests ../../$(BIN)/python -m fuzz $* $(FUZZ_OPTIONS) found/python-$*

$(FUZZ_SCRIPTS:%=run-%): run-%: $(VENV)/.dev
	FUZZ_SECONDS=$(FUZZ_SECONDS) $(BIN)/python tests/$*.py

# a folder of real data sets, where there is one beside the checkout
DATA_DIR ?= $(wildcard ../shared/data)

# The evaluation (docs/evaluation.md): measures, and writes bench/report.html. A second run is compared with the first.
REPORT ?= quick

report: $(VENV)/.bench
	$(BIN)/symsgd bench $(REPORT) $(if $(DATA_DIR),--data-dir $(DATA_DIR))

bench: $(VENV)/.bench
	$(BIN)/python -m symsgd.bench $(BENCH) $(if $(DATA_DIR),--data-dir $(DATA_DIR))

clean:
	rm -rf build dist $(VENV)
