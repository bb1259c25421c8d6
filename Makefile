# Every target sets up what it needs in .venv; nothing else has to be installed first but Python 3.11+.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
MINUTES ?= 10
# Processes start a third faster where Python may keep what it has compiled.
unexport PYTHONDONTWRITEBYTECODE

# pip would compile all of what it installs, which takes a third of the set-up, and would install setuptools once more. An
# import compiles what it needs: here once, and not in several processes at the same time.
QUICKLY := --no-compile --no-build-isolation
COMPILED := duckdb, hypothesis, leasehold.cli.main, leasehold.spark, leasehold.testing.command, pytest

.PHONY: setup java demo check check-core check-rest check-seeds test test-all test-processes test-nodes test-simulated test-scenarios test-core test-rest test-attacks test-documents test-benches test-spark test-pipelines test-wheel test-netns lint format bench soak mutants dist release clean

setup: $(STAMP)

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Leasehold needs Python 3.11 or newer; $(PYTHON) is older. Set PYTHON=/path/to/python3.11" >&2; exit 2; }
	@sh tools/make-venv $(PYTHON) $(VENV)
	$(BIN)/python -m pip install $(QUICKLY) --quiet --disable-pip-version-check --editable '.[spark,demo,dev]'
	@$(BIN)/python -c 'import $(COMPILED)'
	@touch $@

java: ; @sh tools/ensure-java

lint: setup
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/lint-imports --no-cache >/dev/null || $(BIN)/lint-imports --no-cache
	$(BIN)/basedpyright --level error

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# For every day: what the code says, what each part does by itself, and some simulated clusters.
check: setup
	@$(MAKE) --no-print-directory --keep-going --jobs=2 --output-sync=target check-core check-rest lint check-seeds
CORE := $(addprefix tests/unit/,core coordinator node sql)
check-core: setup ; $(BIN)/python -m pytest $(CORE)
check-rest: setup ; $(BIN)/python -m pytest tests/unit tests/conformance tests/golden $(addprefix --ignore=,$(CORE))
check-seeds: setup ; $(BIN)/leasehold-sim campaign --seeds 12

# Processes mostly wait, the rest mostly computes: six at once, the longest first. A part that had to wait for another
# target would begin last, so those that need Java look for it themselves. Compiling what runs a few seconds costs more
# than it saves, so Spark's Java does little of it.
PARTS := test-processes test-documents test-spark test-pipelines test-netns test-recoveries test-nodes test-rest test-conformance test-core test-simulated test-attacks test-wheel test-scenarios test-benches lint
test test-all: export SPARK_SUBMIT_OPTS := -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
# Spark waits forever for a result whose port somebody else dials before its Python does, such as the client of another
# test that looks for a node which had this port. Nobody else knows the sockets of this mode.
test test-all: export PYSPARK_UDS_MODE := true
# Of the tests that take long a quarter, which depends on the commit (tests/shares.py); without git it is always the same.
test: export LEASEHOLD_SHARE ?= $(shell git rev-parse HEAD 2>/dev/null || echo 1)
test test-all: setup java
	@$(BIN)/python -c 'from tests.shares import described; print(described(), end="")'
	@$(MAKE) --no-print-directory --keep-going --jobs=6 --output-sync=target $(PARTS)

# A test has a time, which does not end one that hangs while it tidies up, or outside of Python. So a test that still runs
# after 20 minutes, and a part after 50, say where they are and end. A part with many failed tests, or that has taken 40
# minutes, begins no other: if what its tests share is broken, each would use up its time.
PYTEST := timeout --foreground --signal=ABRT --kill-after=1m 50m $(BIN)/python -m pytest --maxfail=12 --session-timeout=2400 \
  -o faulthandler_timeout=1200 -o faulthandler_exit_on_timeout=true

# How nodes and coordinators come, go and come back, and what is saved and brought back; all else of processes is in
# `test-processes`.
NODES := $(addprefix tests/e2e/test_,coordinator_away.py coordinators.py crash_in_a_leap.py discovery.py exchanged_nodes.py gossip.py hand_over.py identity.py node_commands.py node_resets.py removal.py)
RECOVERIES := $(addprefix tests/e2e/test_,backup.py copies.py eviction.py full_disk.py killed_up.py lost_members.py meta_migrate.py node_exports.py recover.py recover_from.py)
DOCUMENTS := tests/e2e/test_documents.py
BENCHES := tests/e2e/test_bench.py
# Streams, changes, and writes while something fails; all else of Spark is in `test-spark`. Each part has a session.
PIPELINES := $(addprefix tests/e2e/spark/test_,changes.py changes_under_faults.py declarative_pipelines.py node_killed.py sensors.py several_coordinators.py standalone.py stream_reader.py stream_sink.py streams_under_faults.py write_faults.py)
WHEEL := tests/e2e/test_wheel.py
test-nodes: setup ; $(PYTEST) $(NODES)
test-recoveries: setup ; $(PYTEST) $(RECOVERIES)
test-processes: setup ; $(PYTEST) tests/e2e --ignore=tests/e2e/spark $(patsubst %,--ignore=%,$(NODES) $(RECOVERIES) $(DOCUMENTS) $(BENCHES) $(WHEEL))
test-simulated: setup ; $(PYTEST) tests/sim
test-scenarios: setup ; $(PYTEST) tests/scenarios tests/mutants
test-core: setup ; $(PYTEST) $(CORE)
test-conformance: setup ; $(PYTEST) tests/conformance
test-rest: setup ; $(PYTEST) $(addprefix --ignore=,$(CORE) $(addprefix tests/,conformance e2e netns attacks sim scenarios mutants))
test-documents: setup ; sh tools/ensure-java && $(PYTEST) $(DOCUMENTS)
test-benches: setup ; $(PYTEST) $(BENCHES)
test-spark: setup ; sh tools/ensure-java && $(PYTEST) tests/e2e/spark $(addprefix --ignore=,$(PIPELINES))
test-pipelines: setup ; sh tools/ensure-java && $(PYTEST) $(PIPELINES)
test-wheel: setup ; $(PYTEST) $(WHEEL)
test-netns: setup ; $(PYTEST) tests/netns
test-attacks: setup ; $(PYTEST) tests/attacks

demo: setup java
	$(BIN)/python examples/nyc/demo.py

bench: setup java
	$(BIN)/python -m bench

soak: setup java
	$(BIN)/python -m pytest -m long --hypothesis-profile=all tests
	$(BIN)/python -m pytest --hypothesis-profile=all tests/unit tests/conformance/test_metastorage.py
	$(BIN)/python -m tests.soak --minutes $(MINUTES)

mutants: setup
	$(BIN)/python -m tests.mutants --write-docs

# A wheel and an sdist. The build takes setuptools from .venv, so it needs no network.
dist: setup
	rm -rf dist build
	$(BIN)/python -m build --no-isolation --outdir dist .

# What a wheel is installed and checked with: versions with hashes, a bill of materials, an audit. It needs the network.
release: dist
	@$(BIN)/python -m pip install $(QUICKLY) --quiet --disable-pip-version-check --editable '.[release]' \
	  || { echo "release: its tools could not be installed. They come from pip's package index: check the network" >&2; exit 2; }
	@sh tools/release $(BIN) dist

clean:
	rm -rf $(VENV) dist build .pytest_cache .ruff_cache .hypothesis
