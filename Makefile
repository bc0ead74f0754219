# make demo       a fresh clone to a first result: probe, two phases, the report
# make rehearsal  a whole story of tuning, in small and with an emulated GPU: docs/rehearsal.md; with ARGS one probe of it
# make test       lint, types, contracts, docs checks and the quick tests
# make test-all   everything
PY ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
INJECT := vtune/worker/inject
# Pass more to pytest: make test ARGS='-k journal'; to vtune: make rehearsal ARGS='--set workers=6'
ARGS ?=

# Where it is set, each of the several hundred programs that the tests start would compile all its modules anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo rehearsal test test-all check lint types contracts docs format constraints clean
.DELETE_ON_ERROR:

demo: $(READY)
	$(BIN)/vtune probe --config configs/quickstart.yaml
	$(BIN)/vtune phase --config configs/quickstart.yaml --up-to 2 --steps 30 --no-confirm
	$(BIN)/vtune report --config configs/quickstart.yaml
	$(BIN)/vtune launch --config configs/quickstart.yaml --best --rescale-iterations

REHEARSE := $(BIN)/python benchmarks/emulated/vtune_emulated.py
rehearsal: $(READY)
	$(REHEARSE) probe --config configs/exp001_rehearsal.yaml $(ARGS)
	$(if $(ARGS),,$(REHEARSE) phase --config configs/exp001_rehearsal.yaml --up-to 4 --options)

# check has run tests/docs already. Side by side, one more than there are cores, since half of it waits; what is marked
# `timing` runs alone after that.
TESTS := tests/unit tests/integration tests/packaging tests/gpu
BESIDE := -n 3 --dist worksteal
# Options. With arguments of one's own, any part may be left without a test (5). What failed (1) is told, and run once more
# by itself: neighbours disturb a clock now and then, a fault of ours fails each time.
AGAIN := --last-failed --last-failed-no-failures none
define pytest
$(BIN)/python -m pytest -q $(1) $(TESTS) $(ARGS) || case $$? in $(if $(ARGS),5,none)) ;; \
	1) echo "what failed, once more"; $(BIN)/python -m pytest -q $(AGAIN) $(TESTS) $(ARGS) ;; *) exit 2 ;; esac
endef

test: check
	@echo "quick tests, three side by side"
	@$(call pytest,-m "not slow and not timing" $(BESIDE))
	@echo "quick tests, one after the other"
	@$(call pytest,-m "not slow and timing")

test-all: check
	@echo "tests, three side by side"
	@$(call pytest,--durations=15 -m "not timing" $(BESIDE))
	@echo "tests, one after the other"
	@$(call pytest,--durations=15 -m timing)

check: lint types contracts docs

lint: $(READY)
	$(BIN)/ruff check --quiet --output-format concise .
	$(BIN)/ruff format --quiet --check .

types: $(READY)
	$(BIN)/mypy --no-error-summary
	MYPYPATH=$(INJECT) $(BIN)/mypy --no-error-summary --explicit-package-bases --python-version 3.10 \
		$(INJECT)/sitecustomize.py $(INJECT)/_vtune_hooks/*.py

contracts: $(READY)
	$(BIN)/lint-imports --no-logo

docs: $(READY)
	$(BIN)/python -m pytest -q tests/docs

format: $(READY)
	$(BIN)/ruff check --quiet --fix .
	$(BIN)/ruff format --quiet .

# pip's --no-compile halves the time: of torch only what is imported gets compiled, here and once for all.
WARM := import torch._dynamo, torch.optim, torch.utils.data, vtune.api, vtune.cli.main, vtune.cli.live_phases, vtune.config.plan_file
$(READY): pyproject.toml constraints.txt vtune/version.py
	@$(PY) -c 'import sys; sys.exit("vtune needs Python 3.11 or newer, for example: make PY=python3.12" if sys.version_info < (3, 11) else 0)'
	$(PY) -m venv $(VENV)
	$(BIN)/python -m pip install -qq --disable-pip-version-check --no-compile -c constraints.txt -e '.[test]'
	@$(BIN)/python -c '$(WARM)'
	@touch $@

# One file for every Python, platform and extra; nothing of this machine gets into it (--no-config, no index, no links).
# torch==2.13.0 takes a CPU wheel where pip is offered one, and the CUDA build elsewhere.
constraints: $(READY)
	$(BIN)/python -m pip install -qq --disable-pip-version-check uv
	echo 'torch==2.13.0' | $(BIN)/python -m uv pip compile --quiet --universal --upgrade --all-extras --no-config \
		--no-header --no-annotate --constraint - --output-file $(VENV)/constraints.txt pyproject.toml
	(echo '# Exact versions for a reproducible environment: pip install -c constraints.txt -e .'; \
	 echo '# Made from pyproject.toml by `make constraints`; holds for every Python and extra that it names.'; \
	 cat $(VENV)/constraints.txt) > constraints.txt

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
