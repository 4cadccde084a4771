PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CONSTRAINTS ?= constraints/cpu.txt
# One thread a process: the tests and the quickstart run processes side by side, and idle OpenMP threads must not spin.
export OMP_NUM_THREADS ?= 1
export OMP_WAIT_POLICY ?= passive
export TOKENIZERS_PARALLELISM ?= false
export HF_HUB_DISABLE_TELEMETRY ?= 1
# The tests and the quickstart start many short processes: each would compile the package anew.
export PYTHONDONTWRITEBYTECODE =

.PHONY: help install demo test check lint types imports unit test-slow faults bench bars docs format clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

install: $(VENV)/.installed ## create .venv and install agon with its development tools

$(VENV)/.installed: pyproject.toml $(CONSTRAINTS)
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python %d.%d is too old: agon needs 3.11 or newer; set PYTHON=/path/to/python3.11" % sys.version_info[:2])'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c $(CONSTRAINTS) torch
	$(BIN)/python -m pip install --quiet -c $(CONSTRAINTS) -e '.[dev]'
	@touch $@

# Its tests are skipped where this cannot be installed: one of the packages needs a C compiler.
$(VENV)/.gym: $(VENV)/.installed
	-$(BIN)/python -m pip install --quiet -c $(CONSTRAINTS) -e '.[reasoning-gym]'
	@touch $@

demo: install ## train, evaluate and report the embedded default (about 5 minutes on 2 cores)
	$(BIN)/agon train

test: check ## everything CI runs

check: lint imports $(VENV)/.gym ## lint, strict types, import rules, tests
	$(MAKE) -j2 types unit

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install
	$(BIN)/pyright

imports: install
	$(BIN)/lint-imports

unit: install
	$(BIN)/python -m pytest -n 2 --dist loadfile -m 'not slow and not gpu and not faults'

test-slow: install ## the tests marked slow
	$(BIN)/python -m pytest -m slow

faults: install ## faults in real processes: kills, full disks, damaged files (AGON_FAULT_SEED=N: other moments)
	$(BIN)/python -m pytest -n 2 --dist loadfile -m faults tests/faults

bench: install ## speed of sampling and learning, as ratios
	for script in $(filter-out %_bars.py %_parts.py,$(wildcard benchmarks/*.py)); do $(BIN)/python $$script; done

bars: install ## every bar on verdicts, on public answers and programs: AGON_DATA=FOLDER make bars (minutes)
	for script in benchmarks/*_bars.py benchmarks/verdict_speed.py; do $(BIN)/python $$script || exit 1; done

docs: install ## write the pages of docs/ that are made from the code
	$(BIN)/python scripts/write_docs.py

format: install ## rewrite the code in the house format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove what was built
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache
