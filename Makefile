# Every target works from a fresh clone on Debian or Ubuntu with Rust (rustup) and Python 3.10 or newer, and can be run
# again at any time. `make help` lists them.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
# What users run: the optimised package and what the demo and the benchmarks need.
VENV := .venv
BIN := $(VENV)/bin
# What tests run: a debug build of the package, the linters, and the peers that tests compare with.
TEST_VENV := .venv-test
TEST_BIN := $(TEST_VENV)/bin
STAMPS := target/stamps
# The features that need LLVM or the benchmark database, for the crates of the workspace that have them.
FEATURES := polyloom/compute polyloom/planner polyloom-cli/compute polyloom-filetests/compute
NATIVE_SOURCES := Cargo.toml Cargo.lock pyproject.toml $(shell find crates -name '*.rs' -o -name Cargo.toml -o -name '*.hir' 2>/dev/null)
PYTHON_SOURCES := $(shell find python/polyloom -name '*.py' -o -name '*.pyi' 2>/dev/null)

# The driver over the simulator is a file of the package: $(call gpu_driver,PROFILE,FOLDER) builds it and puts it there.
gpu_driver = cargo build --quiet -p polyloom-cuda-sim --profile $(1) && mkdir -p python/polyloom/_gpu && \
	  cp target/$(2)/libpolyloom_cuda_sim.so python/polyloom/_gpu/libcuda.so.1

.PHONY: help setup develop develop-release aot demo test test-aot test-torch test-ray test-pages test-gpu test-gpu-simulated test-gpu-programs lint bench bench-peers docs dataset-demo dataset-sample wheel accuracy fuzz fuzz-text fuzz-gradients fuzz-loom fuzz-python fuzz-capture fuzz-fuse fuzz-graphs exit-soak stubs warp-names warp-corpus warp-tests clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 17

setup: $(STAMPS)/system $(STAMPS)/venv-test  ## install what development needs: LLVM 22 through apt, as root; Python packages in .venv-test

$(STAMPS)/system: scripts/setup_system.sh
	@scripts/setup_system.sh
	@mkdir -p $(@D) && touch $@

$(STAMPS)/venv: scripts/setup_venv.sh python/requirements.txt
	@PYTHON=$(PYTHON) scripts/setup_venv.sh $(VENV) python/requirements.txt
	@mkdir -p $(@D) && touch $@

$(STAMPS)/venv-test: scripts/setup_venv.sh python/requirements-dev.txt
	@PYTHON=$(PYTHON) scripts/setup_venv.sh $(TEST_VENV) python/requirements-dev.txt
	@mkdir -p $(@D) && touch $@

# Tests have a build of their own, installed as a wheel, because an editable one would be that of the sources for all.
$(STAMPS)/develop: setup $(NATIVE_SOURCES) $(PYTHON_SOURCES)
	@if [ ! -e $@ ] || [ -n "$$(find $(NATIVE_SOURCES) $(PYTHON_SOURCES) -newer $@ -print -quit)" ]; then \
	  echo "==> building the compiler and the Python package for tests, into $(TEST_VENV): some minutes the first time"; \
	  rm -rf target/test-wheel; $(call gpu_driver,dev,debug) || exit 1; \
	  PATH="$(CURDIR)/$(TEST_BIN):$$PATH" VIRTUAL_ENV=$(CURDIR)/$(TEST_VENV) \
	    maturin build --quiet --compatibility linux --auditwheel skip --out target/test-wheel; \
	  $(TEST_BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall target/test-wheel/*.whl; \
	  touch $@; fi

# The package without the driver over the simulator, which takes a minute more: what the demo needs.
$(STAMPS)/package: $(STAMPS)/system $(STAMPS)/venv $(NATIVE_SOURCES)
	@if [ ! -e $@ ] || [ -n "$$(find $(NATIVE_SOURCES) -newer $@ -print -quit)" ]; then \
	  echo "==> building the compiler and the Python package, optimised, into $(VENV): some minutes the first time"; \
	  PATH="$(CURDIR)/$(BIN):$$PATH" VIRTUAL_ENV=$(CURDIR)/$(VENV) \
	    maturin develop --release --quiet > target/package.log 2>&1 || { cat target/package.log; exit 1; }; touch $@; fi

$(STAMPS)/develop-release: $(STAMPS)/package
	@$(call gpu_driver,release,release) && touch $@

# What `make bench` and the comparisons with Warp need beside the package; clang needs a library for OpenMP.
$(STAMPS)/peers: $(STAMPS)/venv python/requirements-bench.txt
	@scripts/setup_system.sh libomp-dev
	@PYTHON=$(PYTHON) scripts/setup_venv.sh $(VENV) python/requirements-bench.txt
	@touch $@

develop: $(STAMPS)/develop  ## build the Python package for tests, into .venv-test

develop-release: $(STAMPS)/develop-release  ## build it optimised, into .venv

aot: $(STAMPS)/develop  ## a library built ahead of time, used by programs in C, C++, Rust and Python that print the same bits
	@examples/aot/run.sh $(TEST_BIN)/python target/aot

test-aot: setup  ## tests of libraries for AArch64 and of the choice among processors, under QEMU, which is installed for them through apt, as root
	@scripts/setup_system.sh qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross
	cargo test -p polyloom --features compute --test main artifacts

demo: $(STAMPS)/package  ## simulate a fluid and draw it, against NumPy
	@$(BIN)/python examples/smoke.py

# Where the test extras brought ptxas, the tests that need it run or fail.
REQUIRE_PTXAS = $(if $(wildcard $(TEST_VENV)/lib/python*/site-packages/nvidia/*/bin/ptxas),POLYLOOM_REQUIRE_PTXAS=1)

test: $(STAMPS)/develop  ## all tests: Rust, file tests, Python
	@echo "==> Rust tests"
	@# The dependency policy looks at crates of all platforms.
	@cargo fetch --quiet --locked
	$(REQUIRE_PTXAS) VIRTUAL_ENV=$(CURDIR)/$(TEST_VENV) cargo test --workspace --exclude polyloom-py --features "$(FEATURES)"
	@echo "==> Python tests"
	$(REQUIRE_PTXAS) $(TEST_BIN)/python -m pytest

# What pip takes for PyTorch. As it comes by default on Linux it has 5 GB of NVIDIA's libraries with it; builds for CPUs
# alone are in PyTorch's own index: make test-torch TORCH="torch --index-url …"
TORCH ?= torch

test-torch: $(STAMPS)/develop  ## tests with PyTorch, which is installed for them: the wrapper, ops, fused functions; those for JAX are in `test`
	$(TEST_BIN)/python -m pip install --quiet --disable-pip-version-check $(TORCH)
	$(TEST_BIN)/python -m pytest tests/python/test_functions.py tests/python/test_docs.py tests/python/test_interop.py \
	  tests/python/test_ops_torch.py tests/python/test_fuse_torch.py tests/python/test_fuse_aliases.py tests/python/test_host_methods.py

test-ray: $(STAMPS)/develop  ## tests of data sets made on a Ray cluster, which is installed for them
	$(TEST_BIN)/python -m pip install --quiet --disable-pip-version-check ray
	$(TEST_BIN)/python -m pytest tests/python/test_synth_ray.py

test-pages: $(STAMPS)/develop  ## tests of `polyloom db serve` in Chromium, which is installed for them through apt, as root
	@scripts/setup_system.sh chromium fonts-dejavu-core
	POLYLOOM_REQUIRE_CHROMIUM=1 $(TEST_BIN)/python -m pytest tests/python/test_db_serve.py

test-gpu: $(STAMPS)/develop  ## tests on an NVIDIA GPU, and on its simulator; GPU_TESTING.md says more
	$(TEST_BIN)/python -m pytest tests/gpu

test-gpu-simulated: $(STAMPS)/develop  ## the same as cuda:0 over the simulated driver, with no GPU
	$(TEST_BIN)/polyloom gpu run --quiet -- $(TEST_BIN)/python -m pytest tests/gpu

# Programs that nobody here wrote have an environment of their own, because their packages bring NVIDIA's libraries.
PROGRAMS_VENV := .venv-gpu-programs

$(STAMPS)/gpu-programs: scripts/setup_venv.sh tests/gpu_programs/requirements.txt
	@PYTHON=$(PYTHON) scripts/setup_venv.sh $(PROGRAMS_VENV) tests/gpu_programs/requirements.txt
	@mkdir -p $(@D) && touch $@

test-gpu-programs: $(STAMPS)/develop-release $(STAMPS)/gpu-programs  ## GPU programs of others over the simulated driver; writes docs/gpu_programs.md
	$(BIN)/python tests/gpu_programs/run.py --python $(PROGRAMS_VENV)/bin/python --write docs/gpu_programs.md

lint: setup  ## formatting, clippy, dependency policy, Python linters; the light build with no LLVM in reach
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --features "$(FEATURES)" -- -D warnings
	LLVM_SYS_221_PREFIX=/nonexistent cargo check --all-targets
	$(TEST_BIN)/ruff check .
	$(TEST_BIN)/ruff format --check .
	$(TEST_BIN)/mypy
	@$(TEST_BIN)/python scripts/census.py
	@$(TEST_BIN)/python scripts/import_circles.py

bench: $(STAMPS)/develop-release $(STAMPS)/peers  ## measure against NumPy, Numba and Warp, gradients also against JAX and, if installed, PyTorch; writes docs/scoreboard.md and others
	$(BIN)/python benches/run.py
	$(BIN)/python benches/kinds.py --out docs/kinds.md
	$(BIN)/python benches/fusion.py --out docs/fusion.md
	$(BIN)/python benches/planner.py --out docs/paths.md

bench-peers: $(STAMPS)/develop-release $(STAMPS)/peers  ## measure tensor functions and their paths with PyTorch, eager and compiled, among the peers, and install it for that
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(TORCH)
	$(BIN)/python benches/fusion.py --out docs/fusion.md
	$(BIN)/python benches/planner.py --out docs/paths.md

docs: setup  ## the site in site/: guide, builtin reference, error pages
	cargo run --quiet -p polyloom --example generate -- reference docs/reference
	cargo run --quiet -p polyloom --example generate -- errors docs/errors/index.md
	NO_MKDOCS_2_WARNING=1 $(TEST_BIN)/mkdocs build --strict --quiet
	@echo "open site/index.html"

stubs:  ## regenerate the type stubs from the op table and the compiler's types
	cargo run --quiet -p polyloom --example generate -- stubs python/polyloom

warp-names: $(STAMPS)/develop  ## regenerate docs/warp.md, what there is of Warp's names
	$(TEST_BIN)/python scripts/warp_names.py docs/warp.md

warp-corpus: $(STAMPS)/develop-release $(STAMPS)/peers  ## run Warp's own tests and examples; writes its section of docs/warp.md
	$(BIN)/python scripts/warp_corpus.py --times 3 --write docs/warp.md

warp-tests: $(STAMPS)/develop-release $(STAMPS)/peers  ## run Warp's own unit tests with the import swapped; writes their section of docs/warp.md
	$(BIN)/python scripts/warp_tests.py --write docs/warp.md

dataset-demo: $(STAMPS)/package  ## a data set of 1,000 rows, proved right twice, and its balance
	@rm -rf target/dataset-demo
	$(BIN)/polyloom dataset produce --count 1000 --seed 1 --output target/dataset-demo
	$(BIN)/polyloom dataset validate --input target/dataset-demo
	$(BIN)/polyloom dataset stats --input target/dataset-demo

dataset-sample: $(STAMPS)/develop-release  ## regenerate examples/dataset, 100 rows
	@rm -rf examples/dataset
	$(BIN)/polyloom dataset produce --count 100 --zstd --output examples/dataset

wheel: $(STAMPS)/system $(STAMPS)/venv  ## a self-contained wheel in dist/, LLVM linked statically
	@$(call gpu_driver,dist,dist)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/maturin build --profile dist --out dist --no-default-features --features compute-static
	@ls -l dist

accuracy: setup  ## every float32 input of every one-argument function; dense float64 samples against MPFR
	cargo run --release -p polyloom --features llvm --example accuracy
	@cargo run --quiet --release -p polyloom --features llvm --example accuracy -- --f64 target/accuracy_f64.txt
	@$(TEST_BIN)/python scripts/accuracy_f64.py target/accuracy_f64.txt

fuzz: setup  ## PROGRAMS random kernels through all engines (default 100000)
	cargo run --release -p polyloom-filetests --features compute --example fuzz -- --programs $(or $(PROGRAMS),100000)

fuzz-text: setup  ## PROGRAMS random kernels as C++ text through g++ (default 20000)
	cargo run --release -p polyloom-filetests --features compute --example fuzz -- --cpp g++ --programs $(or $(PROGRAMS),20000)

fuzz-gradients: setup  ## PROGRAMS random kernels differentiated on all engines (default 20000)
	cargo run --release -p polyloom-filetests --features compute --example fuzz -- --gradients yes --programs $(or $(PROGRAMS),20000)

fuzz-loom: setup  ## PROGRAMS random kernels as .loom, read back (default 20000), and TEXTS mutated .loom texts (default 1000000)
	cargo run --release -p polyloom-filetests --features compute --example fuzz -- --loom yes --programs $(or $(PROGRAMS),20000)
	POLYLOOM_FUZZ_ITERATIONS=$(or $(TEXTS),1000000) cargo test --release -p polyloom-filetests --features compute --test main any_loom_text

fuzz-python: $(STAMPS)/develop-release  ## PROGRAMS random programs by CPython and as kernels (default 20000)
	$(BIN)/python scripts/fuzz_python.py --programs $(or $(PROGRAMS),20000)

fuzz-capture:  ## PROGRAMS random tensor functions, run with every access watched, against what capture finds (default 20000)
	cargo build -q -p polyloom-frontend --example capture_json
	python3 scripts/capture_oracle.py --programs $(or $(PROGRAMS),20000)

fuzz-fuse: $(STAMPS)/develop-release  ## PROGRAMS random tensor functions, fused and as they are written (default 20000)
	$(BIN)/python scripts/fuzz_fuse.py --programs $(or $(PROGRAMS),20000)
	$(BIN)/python scripts/fuzz_fuse.py --models --programs $(or $(PROGRAMS),20000)

fuzz-graphs:  ## GRAPHS random tensor graphs by their plans, against the evaluator (default 20000)
	POLYLOOM_GRAPHS=$(or $(GRAPHS),20000) cargo test --release -p polyloom --features compute --test main random_graphs

exit-soak: $(STAMPS)/develop-release  ## EXITS exits of a process while kernels are compiled on a starved machine (default 500)
	$(BIN)/python scripts/exit_soak.py $(or $(EXITS),500)

clean:  ## remove everything that was built
	rm -rf target dist site $(VENV) $(TEST_VENV)
