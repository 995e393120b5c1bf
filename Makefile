# Every target builds what it needs; on a new machine "make run" is the only command.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/pip --disable-pip-version-check
LOCKED := -c requirements.lock

.PHONY: run test lint golden bench lock clean system

run: .venv/run.stamp  ## the whole PyTorch pipeline on real data, on this machine
	$(BIN)/trireme run pytorch-training

test: lint  ## every check and test
	$(BIN)/pytest

lint: .venv/dev.stamp  ## format, style and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

golden: .venv/dev.stamp  ## write the golden files again, to review with git diff
	UPDATE_GOLDEN=1 $(BIN)/pytest -q tests/unit -k golden

bench: .venv/dev.stamp  ## trireme run against the same work in a hand-written script
	$(BIN)/python tests/benchmarks/pipeline.py

lock:  ## the versions of everything, from what pyproject.toml asks for
	rm -rf .venv
	$(MAKE) .venv/dev.stamp LOCKED=
	$(PIP) freeze --exclude-editable | sed 's/+cpu$$//' > requirements.lock

clean:  ## what the targets above have built
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis

# torch first: asked for exactly, it is the build that fits this machine.
.venv/run.stamp: pyproject.toml requirements.lock | system
	test -x $(BIN)/pip || $(PYTHON) -m venv .venv
	$(PIP) install --quiet $(if $(LOCKED),$(shell grep ^torch== requirements.lock),torch==2.13.0)
	$(PIP) install --quiet $(LOCKED) --editable '.[pytorch]'
	touch $@

.venv/dev.stamp: .venv/run.stamp
	$(PIP) install --quiet $(LOCKED) --editable '.[pytorch,dev]'
	touch $@

# What pip cannot bring. Root gets it installed, anybody else is told.
system:
	@missing=""; \
	command -v git >/dev/null || missing="$$missing git"; \
	$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || missing="$$missing python3-venv"; \
	if [ -n "$$missing" ] && [ "$$(id -u)" != 0 ]; then \
		echo "error: missing Debian packages; as root: apt-get install$$missing" >&2; exit 2; \
	elif [ -n "$$missing" ]; then \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $$missing; \
	fi
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "error: Python 3.11 or newer is needed; say which with make PYTHON=..." >&2; exit 2; }
