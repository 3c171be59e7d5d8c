# The contributor's whole interface: each target works as the first command ever given.

VENV := .venv
BIN := $(VENV)/bin
SETUP := sh scripts/setup.sh
# What is formatted, linted and typed; what does not exist is left out.
CODE := $(wildcard src tests benchmarks scripts)
# The browser's part, and the tools that check it.
DASHBOARD := src/clew/gateway/dashboard
NODE := $(VENV)/node/node_modules/.bin
# Programs that tests drive: a real terminal, another SQLite than ours, a PostgreSQL server, a browser, what
# reads a unit of a service.
PROGRAMS := tmux sqlite3 postgresql chromium systemd
# Processes that run tests side by side: more than two cores, as many tests wait for other processes.
JOBS ?= 3
# Rounds of `make kill`.
N ?= 2000

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help chat test check lint format bench proof kill docs walk constraints upgrade clean bytecode

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

chat: $(VENV)/.stamp-run bytecode ## set up everything and run clew
	@$(BIN)/clew
	@command -v clew >/dev/null || printf '\nTo type clew yourself in this shell: . %s/activate\n' $(BIN)

test: $(VENV)/.stamp-dev $(VENV)/.stamp-node bytecode ## set up everything, then run all checks and all tests
	@+sh scripts/test.sh $(JOBS) "$(PROGRAMS)" $(CODE)

check: $(VENV)/.stamp-dev lint ## format, lint, types and import rules, changing nothing
	$(BIN)/mypy $(CODE)

lint: $(VENV)/.stamp-dev $(VENV)/.stamp-node ## the same without the types, in seconds
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/lint-imports --no-logo
	$(NODE)/prettier --check $(DASHBOARD)
	$(NODE)/tsc

format: $(VENV)/.stamp-dev $(VENV)/.stamp-node ## format the code and fix what can be fixed
	$(BIN)/ruff format $(CODE)
	$(BIN)/ruff check --fix $(CODE)
	$(NODE)/prettier --write $(DASHBOARD)

bench: $(VENV)/.stamp-dev bytecode ## measure clew against bare SQLite
	$(BIN)/python -m benchmarks

proof: $(VENV)/.stamp-dev bytecode ## the full-size loops: a million messages, kills, soaks
	$(BIN)/python -m benchmarks.proof

kill: $(VENV)/.stamp-dev bytecode ## kill a writing process N times (make kill N=2000)
	$(BIN)/python -m benchmarks.kill --rounds $(N)

docs: $(VENV)/.stamp-dev ## write the reference pages, the consoles and the pictures of docs/
	$(BIN)/python scripts/docs.py
	$(BIN)/python scripts/consoles.py
	$(BIN)/python scripts/picture.py
	$(BIN)/python scripts/walk.py --write

walk: $(VENV)/.stamp-dev bytecode ## follow one message through the modules, and write it down in docs/
	@$(BIN)/python scripts/walk.py

# Written without the stamp: a pin that no longer fits must not stop its own repair.
COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --all-extras \
	--no-emit-index-url --no-emit-find-links --custom-compile-command "make constraints" \
	--output-file constraints.txt pyproject.toml

constraints: ## pin what pyproject.toml asks for, keeping the pins that still fit
	@$(SETUP) uv
	@$(COMPILE)

upgrade: ## pin the newest version of everything
	@$(SETUP) uv
	@$(COMPILE) --upgrade

clean: ## remove everything that make and the tests have made
	rm -rf $(VENV) build dist htmlcov .coverage .coverage.* .hypothesis .import_linter_cache \
		.mypy_cache .pytest_cache .ruff_cache
	find $(CODE) -type d -name __pycache__ -prune -exec rm -rf {} +

# An editable install is compiled by nobody else; see scripts/setup.sh.
bytecode:
	@$(BIN)/python -m compileall -q src

$(VENV)/.stamp-run $(VENV)/.stamp-dev: pyproject.toml constraints.txt scripts/setup.sh
	@$(SETUP) $(@:$(VENV)/.stamp-%=%)

$(VENV)/.stamp-node: package.json scripts/setup.sh | $(VENV)/.stamp-dev
	@$(SETUP) node

# A checkout that was moved or copied takes an environment along that points elsewhere.
ifneq ($(CURDIR),$(shell cat $(VENV)/.made-in 2>/dev/null))
.PHONY: $(VENV)/.stamp-run $(VENV)/.stamp-dev
endif
