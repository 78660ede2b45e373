# `make help` lists the targets.

PYTHON ?= python3
BIN := .venv/bin
ROOT := $(if $(filter-out 0,$(shell id -u)),sudo)

.PHONY: help demo cell fast test soak storm hostile lock sbom clean

help: ## this list
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 8

demo: .venv/ready ## the main job on the embedded log, end to end
	$(BIN)/paceline demo

cell: .venv/ready .kafka/ready ## two cells on a real Kafka, each part a process of its own; FOLDER=... keeps them
	$(BIN)/python -m deploy.cell $(FOLDER)

# Tests start processes by the hundred: each module is compiled once, whatever the environment says.
TESTS := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m tests

fast: .venv/ready ## lint, types, unit and property tests: without a broker, a browser, other Pythons
	$(TESTS) fast

test: .venv/ready .kafka/ready .pythons/ready .npm/ready .containers/ready ## everything, as .ci/run
	$(TESTS) all

SECONDS ?= 60
SEEDS ?= 20
soak: .venv/ready .kafka/ready ## all seeds and examples, SEEDS=20 of maintenance on 50 hosts, then trials for SECONDS=60
	PACELINE_TEST_ALL=1 PACELINE_SEEDS=$(SEEDS) $(TESTS) soak
	$(BIN)/paceline simulate --faults all --for $(SECONDS)s

N ?= 100
LIVE ?= 100000
storm: .venv/ready .kafka/ready ## N=100 kills, LIVE=100000 tasks meanwhile; see docs/reliability.md
	PACELINE_TEST_ALL=1 $(BIN)/python -m tests.storms $(N) $(LIVE)

hostile: .venv/ready ## attacks of tasks on their host, at all levels; writes the table of docs/security.md
	$(ROOT) $(BIN)/python -m tests.hostile

.venv/ready: requirements/dev.txt pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --require-hashes -r requirements/dev.txt
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	$(BIN)/python -m processors.runtime.kernel_cache
	touch $@

# Kafka of the tests: its jars from Maven Central, Java and Maven from the system where they are missing.
# The reader in Java is compiled with them.
.kafka/ready: tests/helpers/broker/pom.xml $(wildcard examples/java/*)
	(command -v javac && command -v mvn) > /dev/null || ($(ROOT) apt-get update -q && $(ROOT) apt-get install -qy openjdk-17-jdk-headless maven)
	mvn -q -B -f tests/helpers/broker/pom.xml process-resources
	mvn -q -B -f examples/java/pom.xml package
	touch $@

# The other versions of Python that are here, to see that they decide the same.
.pythons/ready: .venv/ready requirements/run.txt
	$(BIN)/python -m tests.helpers.pythons .pythons
	mkdir -p .pythons && touch $@

# The browser of the tests of the web UI from the system; from npm what checks its modules' types and accessibility.
.npm/ready: tests/projections/ui/package.json tests/projections/ui/package-lock.json tests/projections/ui/.npmrc
	command -v chromium > /dev/null || ($(ROOT) apt-get update -q && $(ROOT) apt-get install -qy chromium fonts-liberation)
	command -v npm > /dev/null || ($(ROOT) apt-get update -q && $(ROOT) apt-get install -qy nodejs npm)
	mkdir -p .npm && cp $^ .npm
	npm ci --prefix .npm --silent --no-audit --no-fund --ignore-scripts
	touch $@

# What runs, fetches, unpacks and serves containers in the tests of the agent, all from the system. The registry that is
# installed starts nothing by itself: a test starts its own.
.containers/ready:
	(command -v crun && command -v skopeo && command -v umoci && command -v tini-static && command -v docker-registry && command -v busybox) > /dev/null || \
		($(ROOT) apt-get update -q && $(ROOT) apt-get install -qy --no-install-recommends crun skopeo umoci tini docker-registry busybox-static golang-github-containers-common)
	mkdir -p .containers && touch $@

lock: .venv/ready ## the versions of all packages anew
	$(BIN)/uv pip compile -q --generate-hashes --universal --python-version 3.11 --no-header pyproject.toml --group dev -o requirements/dev.txt
	$(BIN)/uv pip compile -q --generate-hashes --universal --python-version 3.11 --no-header pyproject.toml --extra s3 -o requirements/run.txt

sbom: .venv/ready ## what Paceline is made of, as CycloneDX, to dist/
	$(BIN)/python -m tools.sbom --cyclonedx

clean: ## removes what make has made
	rm -rf .venv .kafka .npm .pythons .containers dist build
