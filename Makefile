# Every target builds what it needs; on a new machine "make run" is the only command.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/pip --disable-pip-version-check
LOCKED := -c requirements.lock
# A new machine's own package manager may be at work for some minutes; update does not wait for it.
APT := for try in 1 2 3 4 5 6 7 8 9 10; do apt-get update -qq && break; sleep 15; done; \
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq -o DPkg::Lock::Timeout=300

PIPELINE := pytorch-training

.PHONY: help run test test-all test-cluster faults fuzz lint audit golden docs docs-serve bench profile component lock images images-test dist try-dist clean cluster-up system test-system

help:  ## this list
	@sed -nE 's/^([a-z-]+):[^#]*## *(.*)/\1\t\2/p' Makefile | awk -F '\t' '{printf "make %-14s %s\n", $$1, $$2}'

run: .venv/$(PIPELINE:-training=).stamp  ## a whole pipeline on real data; PIPELINE=tensorflow-training
	$(BIN)/trireme run $(PIPELINE)

# One process more than there are cores: tests wait for servers and pauses a third of the time.
BESIDE := --numprocesses $$(($$(nproc) + 1)) --dist loadfile --no-loadscope-reorder

test: lint  ## style, types, and all tests that take less than seconds each
	$(BIN)/pytest -m 'not slow and not images' $(BESIDE)

# A test that fails beside others, and passes on a machine of its own, is told by the first summary.
test-all: lint test-system  ## every check and test; an hour, before a change lands
	$(BIN)/pytest -m 'not images' $(BESIDE) \
		|| $(BIN)/pytest -m 'not images' --last-failed --last-failed-no-failures none --maxfail 1

ENGINE :=
# Runs wait for their pods most of the time, so three at once fit on a node of two cores. Each takes
# the next case, in the order that is given, when it has ended one.
test-cluster: .venv/dev.stamp  ## runs on the cluster of the KUBECONFIG; ENGINE="argo kfp jobs", by default all
	TRIREME_TEST_ENGINE="$(ENGINE)" $(BIN)/pytest tests/cluster --timeout 1800 \
		--numprocesses 3 --dist load --maxschedchunk 1

N := 200
faults: .venv/dev.stamp  ## N runs to each of which one thing happens at a random moment
	TRIREME_FAULTS=$(N) $(BIN)/pytest tests/integration/test_random_faults.py \
		tests/integration/test_faults_of_servers.py \
		--numprocesses $$(nproc) --dist load

SECONDS := 600
fuzz: .venv/dev.stamp  ## hand each reader of what users write what it is not made for, for SECONDS
	TRIREME_FUZZ_SECONDS=$(SECONDS) $(BIN)/pytest tests/fuzz --timeout $$(($(SECONDS) + 300)) \
		--numprocesses $$(nproc) --dist load

lint: .venv/dev.stamp  ## format, style and types; of the pages the length of sentences and paragraphs
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest -q tests/unit/repository/test_style.py

# Strictly: of what it cannot look up, pip-audit would only warn.
VULNERABILITIES := https://pypi.org/pypi/pip/json
audit: .venv/pytorch.stamp  ## what is known to be vulnerable of what requirements.lock pins
	@$(BIN)/python -c 'import json, urllib.request; json.load(urllib.request.urlopen("$(VULNERABILITIES)", timeout=30))["vulnerabilities"]' \
		2>/dev/null || { echo "error: $(VULNERABILITIES) tells no vulnerabilities here, so nothing was audited; try again with a network that reaches it" >&2; exit 2; }
	$(BIN)/uv tool run pip-audit --strict --no-deps --disable-pip --requirement requirements.lock

golden: .venv/dev.stamp  ## write the golden files again, to review with git diff
	UPDATE_GOLDEN=1 $(BIN)/pytest -q tests/unit -k golden

# The site's generator has an environment of its own.
docs: .venv-docs/stamp  ## the pages of docs/ as a site, in site/
	.venv-docs/bin/zensical build --clean --strict

docs-serve: .venv-docs/stamp  ## the same at http://localhost:8000, built anew when a page changes
	.venv-docs/bin/zensical serve

bench: .venv/dev.stamp  ## against the same work done by hand, by a grid, or by git, cp, rclone, aws, onnxruntime, torch.save and torchrun
	$(BIN)/python benchmarks/pipeline.py
	$(BIN)/python benchmarks/steps.py
	$(BIN)/python benchmarks/trials.py
	$(BIN)/python benchmarks/checkout.py
	$(BIN)/python benchmarks/staging.py
	$(BIN)/python benchmarks/evaluation.py
	$(BIN)/python benchmarks/evaluation_growth.py
	$(BIN)/python benchmarks/log_lines.py
	$(BIN)/python benchmarks/following.py
	$(BIN)/python benchmarks/sizes.py
	$(BIN)/python benchmarks/export.py
	$(BIN)/python benchmarks/serving.py
	$(BIN)/python benchmarks/checkpoint.py
	$(BIN)/python benchmarks/scaling.py
	$(BIN)/python benchmarks/language_model.py
	$(BIN)/python benchmarks/strategy.py
	$(BIN)/python benchmarks/sweep.py

profile: .venv/dev.stamp  ## where the seconds of the default run go, process by process
	$(BIN)/python benchmarks/profile_run.py

component:  ## the files of a new step, with its test: make component NAME=label
	@case "$(NAME)" in ""|[!a-z]*|*[!a-z_]*) echo "error: NAME=$(NAME): give a name of small letters and _" >&2; exit 2;; esac
	@for file in components/$(NAME) trireme/$(NAME) tests/unit/$(NAME); do \
		test ! -e $$file || { echo "error: there is a $$file already" >&2; exit 2; }; done
	@$(PYTHON) -c 'import keyword; exit(keyword.iskeyword("$(NAME)"))' || \
		{ echo "error: NAME=$(NAME): is a word of Python's" >&2; exit 2; }
	cp -r docs/new-component components/$(NAME)
	mkdir trireme/$(NAME) tests/unit/$(NAME)
	mv components/$(NAME)/work.py trireme/$(NAME)/work.py
	cp components/$(NAME)/__init__.py trireme/$(NAME)/__init__.py
	mv components/$(NAME)/test_NAME.py tests/unit/$(NAME)/test_$(NAME).py
	sed -i 's/NAME/$(NAME)/g' components/$(NAME)/*.py trireme/$(NAME)/*.py tests/unit/$(NAME)/test_$(NAME).py
	@echo "the work is in trireme/$(NAME)/work.py, its test in tests/unit/$(NAME)/test_$(NAME).py"

lock:  ## the versions of everything, from what pyproject.toml asks for
	rm -rf .venv
	$(MAKE) .venv/dev.stamp LOCKED=
	$(PIP) freeze --exclude-editable | sed 's/+cpu$$//' > requirements.lock
	$(PIP) install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-header --group docs \
		--python-version 3.11 --upgrade --output-file requirements-docs.lock
	PATH=$(CURDIR)/$(BIN):$$PATH images/lock.sh

IMAGES :=
ACCELERATOR := cpu
REGISTRY :=
PUSH :=
images:  ## build all images, or IMAGES="base pytorch"; ACCELERATOR=cuda for GPUs; REGISTRY=... PUSH=1 writes images.yaml
	$(PYTHON) images/build.py --accelerator $(ACCELERATOR) \
		$(if $(REGISTRY),--registry $(REGISTRY)) $(if $(PUSH),--push) $(IMAGES)

images-test: .venv/dev.stamp  ## what is in the images, or IMAGES="base pytorch", and a run in them
	$(BIN)/pytest -m images --built="$(IMAGES)" tests/images

dist: .venv/dev.stamp  ## the wheel, the sdist and their SBOM, in dist/
	rm -rf dist
	$(BIN)/uv build --quiet --out-dir dist
	$(BIN)/uv tool run --from cyclonedx-bom cyclonedx-py requirements requirements.lock \
		--pyproject pyproject.toml --of JSON --output-file dist/sbom.cdx.json

# What a user has: nothing but Python, and what pip brings.
FILE = $(firstword $(wildcard dist/*.whl))
VERSIONS := newest
try-dist:  ## install FILE=dist/... into an empty environment, and train; VERSIONS=locked
	@test -f "$(FILE)" || { echo "error: FILE=$(FILE): there is no such file; make dist builds it" >&2; exit 2; }
	$(PYTHON) tests/try_dist.py "$(FILE)" $(if $(filter locked,$(VERSIONS)),--constraint requirements.lock)

cluster-up:  ## a cluster in Docker with all that runs need; see manifests/cluster-up.sh
	manifests/cluster-up.sh

clean:  ## what the targets above have built
	rm -rf .venv .venv-docs site .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis dist

.venv/base.stamp: | system
	test -x $(BIN)/pip || $(PYTHON) -m venv .venv
	touch $@

# torch first: asked for exactly, it is the build that fits this machine.
.venv/pytorch.stamp: pyproject.toml requirements.lock .venv/base.stamp
	$(PIP) install --quiet $(if $(LOCKED),$(shell grep ^torch== requirements.lock),torch==2.13.0)
	$(PIP) install --quiet $(LOCKED) --editable '.[pytorch]'
	touch $@

.venv/tensorflow.stamp: pyproject.toml requirements.lock .venv/base.stamp
	$(PIP) install --quiet $(LOCKED) --editable '.[tensorflow]'
	touch $@

.venv/dev.stamp: .venv/pytorch.stamp .venv/tensorflow.stamp
	$(PIP) install --quiet $(LOCKED) --editable '.[pytorch,tensorflow,llm,mpi,jax,xgboost,server,dev]'
	touch $@

.venv-docs/stamp: requirements-docs.lock | system
	test -x .venv-docs/bin/pip || $(PYTHON) -m venv .venv-docs
	.venv-docs/bin/pip --disable-pip-version-check install --quiet --require-hashes -r requirements-docs.lock
	touch $@

# What pip cannot bring. Root gets it installed, anybody else is told.
system:
	@missing=""; \
	command -v git >/dev/null || missing="$$missing git"; \
	$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || missing="$$missing python3-venv"; \
	if [ -n "$$missing" ] && [ "$$(id -u)" != 0 ]; then \
		echo "error: missing Debian packages; as root: apt-get install$$missing" >&2; exit 2; \
	elif [ -n "$$missing" ]; then $(APT) $$missing; fi
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "error: Python 3.11 or newer is needed; say which with make PYTHON=..." >&2; exit 2; }

# Without these the tests that need them are skipped. The tests start them themselves, so nothing
# that is installed here is started by Debian.
POLICY := /usr/sbin/policy-rc.d
test-system:
	@missing=""; \
	command -v mpirun >/dev/null || missing="$$missing openmpi-bin"; \
	command -v ip >/dev/null || missing="$$missing iproute2"; \
	command -v /usr/sbin/nft >/dev/null || missing="$$missing nftables"; \
	command -v nginx >/dev/null || missing="$$missing nginx-light"; \
	command -v fcgiwrap >/dev/null || missing="$$missing fcgiwrap"; \
	command -v git-lfs >/dev/null || missing="$$missing git-lfs"; \
	command -v /usr/sbin/sshd >/dev/null || missing="$$missing openssh-server"; \
	ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || missing="$$missing postgresql"; \
	command -v chromium >/dev/null || missing="$$missing chromium"; \
	command -v docker-registry >/dev/null || missing="$$missing docker-registry"; \
	command -v promtool >/dev/null || missing="$$missing prometheus"; \
	if [ -n "$$missing" ] && [ "$$(id -u)" != 0 ]; then \
		echo "note: some tests are skipped; as root: apt-get install$$missing" >&2; \
	elif [ -n "$$missing" ]; then \
		if [ ! -e $(POLICY) ]; then \
			trap 'rm -f $(POLICY)' EXIT; \
			printf '#!/bin/sh\nexit 101\n' > $(POLICY); chmod +x $(POLICY); \
		fi; \
		$(APT) $$missing; \
	fi
