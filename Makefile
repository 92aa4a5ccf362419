# One set-up step for everything: `make install`. Needs only Python >= 3.11 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PLUGINS := $(wildcard plugins/*/pyproject.toml)
# their dependencies are hundreds of megabytes, and only slow tests need them: `test-all` installs them
HEAVY_PLUGINS := $(wildcard plugins/servekit-torch plugins/servekit-huggingface plugins/servekit-ray)
STAMP := $(VENV)/.installed
DOCS_STAMP := $(VENV)/.docs-installed
HEAVY_STAMP := $(VENV)/.heavy-installed
HELM_STAMP := $(VENV)/.helm-installed
unexport PYTHONDONTWRITEBYTECODE  # the tests start a thousand processes: each would compile anew

.PHONY: install docs demo test test-all lint bench swaps scale guard faults fuzz images wheels clean

install: $(STAMP)

$(STAMP): pyproject.toml archiver/pyproject.toml $(PLUGINS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "servekit needs Python >= 3.11; try: make PYTHON=python3.12"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing servekit, servekit-archiver and the plugins into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ./archiver -e . $(addprefix -e ./,$(filter-out $(HEAVY_PLUGINS),$(PLUGINS:/pyproject.toml=))) --group dev
	@test -z "$(HEAVY_PLUGINS)" || $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps $(addprefix -e ./,$(HEAVY_PLUGINS))
	@touch $@

# the pages as a site, with a reference of the Python API; a broken link is an error
docs: $(DOCS_STAMP)
	@$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going -c docs -d build/doctrees -b html . build/site
	@echo "build/site/docs/index.html"

$(DOCS_STAMP): $(STAMP)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --group docs
	@touch $@

$(HEAVY_STAMP): $(STAMP)
	@echo "installing PyTorch and Ray for the slow tests into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --group torch --group ray --group proxies
	@touch $@

# Helm as a package; it names Python 3.12 as the oldest, and works with 3.11
$(HELM_STAMP): $(STAMP)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --ignore-requires-python --no-deps "helm-sdkpy>=0.1.32" "cffi>=1.15" || echo "no Helm: its tests are skipped"
	@touch $@

demo: install
	@$(BIN)/python examples/demo.py

# several files at once: most wait for processes. In the order of their names the last ones are
# short. Scratch files are in memory where there is room: archives are flushed to the disk, which
# may take longer than the tests. PYTEST_ARGS: just these paths, with these options.
define PYTEST
	@free=$$(df --output=avail /dev/shm 2>/dev/null | tail -n 1); \
	test "$${free:-0}" -gt 4000000 && ! grep -q " /dev/shm .*noexec" /proc/mounts && in=/dev/shm || in=$${TMPDIR:-/tmp}; \
	base=$$(mktemp -d $$in/XXXXXX) && $(BIN)/python -m pytest -q -n 3 --dist loadfile --no-loadscope-reorder \
		--basetemp=$$base/t $(1); status=$$?; \
	test $$status != 1 -o -z "$(ALONE)" || { $(ALONE) $(BIN)/python --basetemp=$$base/t; status=$$?; }; \
	rm -rf $$base; exit $$status
endef

test: install lint
ifdef PYTEST_ARGS
	@$(BIN)/python -m pytest -q $(PYTEST_ARGS)
else
	$(call PYTEST,-m "not slow")
endif

# and what takes long: every page's code, all fault rows, the guard, fuzzers, images, clean environments
test-all: test $(DOCS_STAMP) $(HEAVY_STAMP) $(HELM_STAMP)
	$(call PYTEST,-m slow)

lint: install
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

bench: install
	@$(BIN)/python -m tests.benchmarks $(BENCH_ARGS)

# what users notice while a model is replaced; --publish writes docs/benchmarks/swaps.md
swaps: install
	@$(BIN)/python -m tests.benchmarks.swaps $(SWAPS_ARGS)

# every promise with a figure, kept while harm is done; --publish writes docs/faults.md
faults: install
	@$(BIN)/python -m tests.faults $(FAULTS_ARGS)

# cost per request as models, connections and queues grow; --publish writes docs/benchmarks/scale.md
scale: install
	@$(BIN)/python -m tests.scale $(SCALE_ARGS)

# system calls and instructions per request; GUARD_ARGS=--record makes them the bounds
guard: install
	@$(BIN)/python -m tests.guard $(GUARD_ARGS)

# many more requests of the fuzzer than `make test` sends; FUZZ_EXAMPLES says how many
fuzz: install
	@FUZZ_EXAMPLES=$${FUZZ_EXAMPLES:-20000} $(BIN)/python -m pytest -q tests/fuzz $(PYTEST_ARGS)

# a container image's recipe step by step, with every package from the index
images: install
	@IMAGE_TESTS=1 $(BIN)/python -m pytest -q plugins/servekit-container/tests $(PYTEST_ARGS)

# the wheels outside the checkout, with each Python from 3.11 to 3.14 that is on the path
wheels: install
	@WHEEL_TESTS=1 $(BIN)/python -m pytest -q -rs tests/contract/test_wheels.py $(PYTEST_ARGS)

clean:
	rm -rf $(VENV) .bench build dist
