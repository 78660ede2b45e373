# `make demo` runs the main job on the embedded log; `make test` runs every test, those on a real Kafka included;
# `make cell` runs two cells on a real Kafka, each part a process of its own; FOLDER=... keeps them for the next time.

PYTHON ?= python3
BIN := .venv/bin
ROOT := $(if $(filter-out 0,$(shell id -u)),sudo)

.PHONY: demo cell test check unit soak storm lock clean

demo: .venv/ready
	$(BIN)/paceline demo

cell: .venv/ready .kafka/ready
	$(BIN)/python -m deploy.cell $(FOLDER)

test: .venv/ready check unit

check: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Tests start processes by the hundred: each module is compiled once, whatever the environment says.
unit: .venv/ready .kafka/ready .pythons/ready .npm/ready
	PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -n 2 --dist loadgroup

SECONDS ?= 60
soak: .venv/ready
	$(BIN)/paceline simulate --faults all --for $(SECONDS)s

N ?= 100
LIVE ?= 100000
storm: .venv/ready .kafka/ready
	$(BIN)/python -m tests.storms $(N) $(LIVE)

.venv/ready: requirements/dev.txt pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --require-hashes -r requirements/dev.txt
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
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

lock: .venv/ready
	$(BIN)/uv pip compile -q --generate-hashes --universal --python-version 3.11 --no-header pyproject.toml --group dev -o requirements/dev.txt
	$(BIN)/uv pip compile -q --generate-hashes --universal --python-version 3.11 --no-header pyproject.toml --extra s3 -o requirements/run.txt

clean:
	rm -rf .venv .kafka .npm .pythons dist build
