# Every target builds what it needs: a virtual environment in .venv, and Java where this machine has none that fits.
# A fresh machine needs Python >= 3.10 and a network; `make run` and `make test` do the rest.

VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.made-from-pyproject

# One line of shell before whatever starts Spark: which Java, and that Spark's workers run the same Python as we do.
SPARK_ENV = JAVA_HOME="$$(scripts/ensure_java.sh)" && export JAVA_HOME PYSPARK_PYTHON="$(CURDIR)/$(PY)" \
	PYSPARK_DRIVER_PYTHON="$(CURDIR)/$(PY)"

ARGS ?=

.DEFAULT_GOAL := help
# Every target that `make` lists.
.PHONY: $(shell sed -n 's/^\([a-z-]*\):.*\#\# .*/\1/p' $(firstword $(MAKEFILE_LIST)))

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(STAMP) ## build .venv, and find or install Java
	@scripts/ensure_java.sh > /dev/null

run: $(STAMP) ## the demo: hot items from shop clicks, streaming (ARGS="--help" shows its options)
	@$(SPARK_ENV) && PYTHONPATH="$(CURDIR)/examples" $(PY) -m hot_items $(ARGS)

DEMO = @$(SPARK_ENV) && PYTHONPATH="$(CURDIR)/src:$(CURDIR)/examples" $(PY) -m demos

demo-rolling: $(STAMP) ## demo: counts of the last 1, 12 and 24 hours in one pass, late rows, and a picture
	$(DEMO).rolling_counts $(ARGS)

demo-kill: $(STAMP) ## demo: a job killed with kill -9 counts each row once, with a picture (ARGS=--by-hand: you kill it)
	$(DEMO).kill_it $(ARGS)

demo-training: $(STAMP) ## demo: features from tiles equal SQL over the rows, for training and serving, with a picture
	$(DEMO).training_serving $(ARGS)

# The interpreter with real Delta, Iceberg and Kafka; empty where it cannot be made.
CONNECTORS = python=$$(scripts/make_spark_env.sh $(CONNECTORS_SPARK)) || exit 1; [ -z "$$python" ] || "$$python" scripts/class_archive.py
RUN_TESTS = $(PY) scripts/class_archive.py; $(PY) scripts/run_tests.py

test: $(STAMP) ## each operator, sink, recovery path and page once: five to ten minutes (ARGS="-k name", or a file)
	@$(SPARK_ENV) && $(RUN_TESTS) test -- $(ARGS)

test-all: $(STAMP) ## every test: all random cases, kills, connectors, benchmarks' own: one to two hours
	@$(SPARK_ENV); $(CONNECTORS); $(RUN_TESTS) all --python "$$python" -- $(ARGS)

test-changed: $(STAMP) ## the rest of test-all that belongs to the files changed since the last tag or 50 commits (SECONDS=600)
	@$(SPARK_ENV) && $(RUN_TESTS) changed --seconds $(or $(SECONDS),0) -- $(ARGS)

test-smoke: $(STAMP) ## one test each of Spark Connect, Delta, Iceberg and Kafka
	@$(SPARK_ENV); $(CONNECTORS); $(PY) scripts/run_tests.py smoke --python "$$python" -- $(ARGS)

test-durations: $(STAMP) ## test-all, and renew tests/durations.md: where the time goes
	@$(SPARK_ENV); mkdir -p build/costs; PANESTREAM_COSTS="$(CURDIR)/build/costs/*.json" $(RUN_TESTS) all -- $(ARGS); \
	$(PY) scripts/make_durations.py build/costs tests/durations.md

test-fast: $(STAMP) ## the tests that need neither Spark nor Java
	@PYTHONDONTWRITEBYTECODE= $(PY) -m pytest -m "not spark and not full and not connectors" -n 2 --dist worksteal $(ARGS)

# Delta, Iceberg and Kafka are released for each line of Spark by themselves: the newest that has all three is this one.
CONNECTORS_SPARK ?= 4.1
test-connectors: ## real Delta, Iceberg and Kafka, beside the newest Spark that all were released for
	@python=$$(scripts/make_spark_env.sh $(CONNECTORS_SPARK)) || exit 1; [ -n "$$python" ] || exit 0; \
	JAVA_HOME="$$(scripts/ensure_java.sh)" && export JAVA_HOME PYSPARK_PYTHON="$$python" PYTHONPATH="$(CURDIR)/src:$(CURDIR)"; \
	"$$python" scripts/class_archive.py; "$$python" -m pytest -m connectors tests/connectors $(ARGS)

simulate: $(STAMP) ## crashes before every step, second copies, older checkpoints, without Spark (ARGS="--seed 1 --runs 200000")
	@$(PY) -m tests.testing.simulation.campaign $(ARGS)

crash: ## hundreds of real kills: every kind x operator x sink; writes benchmarks/results/crashes.md (ARGS="--kills 300 --seed 1")
	@python=$$(scripts/make_spark_env.sh $(CONNECTORS_SPARK)) || exit 1; [ -n "$$python" ] || exit 0; \
	JAVA_HOME="$$(scripts/ensure_java.sh)" && export JAVA_HOME PYSPARK_PYTHON="$$python" PYTHONPATH="$(CURDIR)/src:$(CURDIR)"; \
	"$$python" scripts/class_archive.py; "$$python" -m tests.recovery.crashes.campaign $(ARGS)

kafka: ## a real Kafka broker on this machine, until Ctrl+C (ARGS="--port 9092 --topic clicks:4")
	@python=$$(scripts/make_spark_env.sh $(CONNECTORS_SPARK)) || exit 1; [ -n "$$python" ] || exit 0; \
	JAVA_HOME="$$(scripts/ensure_java.sh)" exec "$$python" scripts/kafka_broker.py $(ARGS)

# Without pandas, and with the oldest Python, Spark and libraries that pyproject.toml allows; skipped, with the reason, where no such
# environment can be made. What other versions of numpy, Arrow and the command line's libraries would break; on Spark the README's example,
# and job files with sessions, counts, several windows and a function: minutes, so that .ci/run can afford it.
FLOOR_TESTS := tests/engine/aggregates tests/windowing/aggregates tests/engine/operators/row/test_codec.py \
	tests/engine/operators/row/test_declared.py tests/jobs/test_command_line.py tests/examples/hot_items/test_picture.py \
	tests/engine/exchange/test_exchange.py
FLOOR_SPARK_TESTS := tests/architecture/test_readme.py tests/jobs/test_window_jobs_on_spark.py

test-floor: ## the oldest versions allowed, without pandas: tests without Spark, and a core of those with it
	@python=$$(scripts/make_floor.sh .venv-floor) || exit 1; [ -n "$$python" ] || exit 0; \
	JAVA_HOME="$$(scripts/ensure_java.sh)" && export JAVA_HOME PYSPARK_PYTHON="$$python"; failed=0; \
	"$$python" -m pytest -m "not spark and not full" -n auto $(FLOOR_TESTS) $(ARGS) || failed=1; \
	"$$python" -m pytest -m spark $(FLOOR_SPARK_TESTS) $(ARGS) || failed=1; \
	exit $$failed

# Which of them are to be run, and environments that are there already: ARGS="--help" says how.
test-matrix: ## every line of Spark, several Pythons, Java 21, checkpoints that go on from one to the next: an hour; fills docs/reference/versions.md
	@python3 scripts/run_matrix.py $(ARGS)

mutants: $(STAMP) ## faults planted in engine and Spark side: killed of how many, by package (ARGS="--packages engine/kernels --seeds 7")
	@$(SPARK_ENV) && $(PY) -m tests.mutants.run $(ARGS)

RELEASE = python=$$(scripts/make_release_env.sh) || exit 1; [ -n "$$python" ] || exit 0;

changelog: ## move the fragments of changelog.d into CHANGELOG.md, and date the version (ARGS="--day 2026-11-28")
	@python3 scripts/make_changelog.py $(ARGS)

package: ## wheel and sdist in dist/: built twice, looked into, checked
	@$(RELEASE) "$$python" scripts/package.py build

test-package: package ## the wheel in an empty environment (.venv-package): README's example and a job file run from there
	@$(RELEASE) JAVA_HOME="$$(scripts/ensure_java.sh)" && export JAVA_HOME; "$$python" scripts/package.py try

test-install: package ## pip install panestream from a package index on this machine, as a user will from PyPI
	@$(RELEASE) "$$python" scripts/package.py install

conda-recipe: package ## the recipe for conda-forge with version and hash, in dist/conda
	@$(RELEASE) "$$python" scripts/package.py conda

sbom: package ## what an installation holds, as CycloneDX, in dist/; and whether pip-audit knows anything against it
	@$(RELEASE) "$$python" scripts/package.py sbom

secrets: ## passwords, keys and tokens in what git has, beside those that .secrets.baseline knows (ARGS=--renew)
	@scripts/scan_secrets.sh $(ARGS)

check: $(STAMP) ## lint, formatting, types, prose
	@failed=0; \
	$(PY) -m ruff check . || failed=1; \
	$(PY) -m ruff format --check . || failed=1; \
	$(PY) -m mypy || failed=1; \
	$(PY) scripts/check_prose.py || failed=1; \
	exit $$failed

format: $(STAMP) ## mend what ruff can mend by itself
	@$(PY) -m ruff check --fix . ; $(PY) -m ruff format .

bench: $(STAMP) ## panestream beside native window() and a hand-written operator (ARGS="--quick" for a short look)
	@$(SPARK_ENV) && $(PY) -m benchmarks.run $(ARGS)

bench-functions: $(STAMP) ## count trigger, sessions, evictor, own aggregate: beside transformWithState by hand
	@$(SPARK_ENV) && $(PY) -m benchmarks.run --cases counted sessions evicted own_mean $(ARGS)

bench-frames: $(STAMP) ## a pandas frame or an Arrow table for each window: beside applyInPandasWithState by hand
	@$(SPARK_ENV) && $(PY) -m benchmarks.run --cases frames tables --rows 100000 --name frames $(ARGS)

bench-features: $(STAMP) ## rolling values, as-of joins, process functions, filled windows, aggregates: beside their best peers (ARGS="--quick")
	@$(SPARK_ENV) && $(PY) -m benchmarks.features.run $(ARGS)

bench-flink: $(STAMP) ## beside Flink itself (from PyPI) and native Spark, six workloads
	@$(SPARK_ENV) && $(PY) -m benchmarks.flink.run $(ARGS)

bench-slides: $(STAMP) ## an hour's window at ever smaller slides, beside Flink and native Spark, with a plot
	@$(SPARK_ENV) && $(PY) -m benchmarks.flink.slides $(ARGS)

bench-limits: $(STAMP) ## 100 to 1,000,000 keys, none to a third of the rows late: speed, state, memory
	@$(SPARK_ENV) && $(PY) -m benchmarks.limits.run $(ARGS)

bench-nexmark: $(STAMP) ## Nexmark's five windowed queries, beside native Spark
	@$(SPARK_ENV) && $(PY) -m benchmarks.nexmark.run $(ARGS)

bench-kafka: ## hot items through a real Kafka, one partition an hour behind, beside native Spark
	@python=$$(scripts/make_spark_env.sh $(CONNECTORS_SPARK)) || exit 1; [ -n "$$python" ] || exit 0; \
	JAVA_HOME="$$(scripts/ensure_java.sh)" && export JAVA_HOME PYTHONPATH="$(CURDIR)/src:$(CURDIR)"; \
	"$$python" -m benchmarks.kafka.run $(ARGS)

bench-kafka-latency: ## from a row in Kafka to the row in another topic, beside native Spark
	@python=$$(scripts/make_spark_env.sh $(CONNECTORS_SPARK)) || exit 1; [ -n "$$python" ] || exit 0; \
	JAVA_HOME="$$(scripts/ensure_java.sh)" && export JAVA_HOME PYTHONPATH="$(CURDIR)/src:$(CURDIR)"; \
	"$$python" -m benchmarks.kafka.latency $(ARGS)

bench-groups: $(STAMP) ## what a key group costs in a micro-batch, beside native window(), 1 to 128 of them
	@$(SPARK_ENV) && $(PY) -m benchmarks.groups $(ARGS)

bench-model: $(STAMP) ## what a micro-batch costs by rows, keys, groups and cores, from what bench-groups kept; and on 500 cores
	@$(PY) -m benchmarks.model $(ARGS)

bench-latency: $(STAMP) ## how long a small micro-batch takes, with two sinks and without, beside native window()
	@$(SPARK_ENV) && $(PY) -m benchmarks.latency $(ARGS)

bench-backfill: $(STAMP) ## a day of 100 million rows at once, beside native Spark, DuckDB and Polars
	@$(SPARK_ENV) && $(PY) -m benchmarks.backfill.run $(ARGS)

bench-state: $(STAMP) ## a million keys with ten open windows, a gigabyte of kept rows: inspected, saved, started from
	@$(SPARK_ENV) && $(PY) -m benchmarks.state.run $(ARGS)

bench-heavy: $(STAMP) ## hot keys, long sessions, rows of a megabyte, 10,000 columns: speed, memory, and is it right? (ARGS="--scale 0.1" for a short look)
	@$(SPARK_ENV) && $(PY) -m benchmarks.heavy.run $(ARGS)

soak: $(STAMP) ## a query for hours, killed and started again: right at the end, and does anything grow? (ARGS="--hours 8 --rate 5000")
	@$(SPARK_ENV) && $(PY) -m benchmarks.soak.run $(ARGS)

bench-recovery: $(STAMP) ## from a kill to the next committed micro-batch, with 10, 100, 1,000 MB of state, beside native window()
	@$(SPARK_ENV) && $(PY) -m benchmarks.recovery $(ARGS)

docs: $(STAMP) ## the site, in build/docs: pages, reference, drawings; every warning is an error (ARGS="--fresh")
	@$(PY) scripts/make_docs.py $(ARGS)

docs-serve: $(STAMP) ## the same, and shown on http://127.0.0.1:8000
	@$(PY) scripts/make_docs.py --serve 8000 $(ARGS)

docs-versions: $(STAMP) ## the site of main and of every tagged version, in build/site, as it is published
	@$(PY) scripts/make_versions.py $(ARGS)

docs-counts: $(STAMP) ## how many pages, drawings, blocks of code that ran, links that were checked
	@$(SPARK_ENV) && $(PY) scripts/docs_counts.py $(ARGS)

job-keys: $(STAMP) ## renew the tables of docs/reference/job-files.md
	@$(PY) scripts/make_job_keys.py

bad-input: $(STAMP) ## run every case of bad input, and renew the tables of docs/reference/bad-input.md (ARGS="Keys Files": only these)
	@$(SPARK_ENV) && $(PY) -m scripts.make_bad_input $(ARGS)

metrics-table: $(STAMP) ## renew the table of docs/reference/metrics.md
	@$(PY) scripts/make_metrics_table.py

parity: $(STAMP) ## renew the tables of docs/coming-from/flink-parity.md
	@$(PY) scripts/make_parity.py

clean: ## remove .venv, caches and demo output
	rm -rf $(VENV) .venv-floor .venv-package .venv-release .venv-spark-* .java-21 demo-output .kafka build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMP): pyproject.toml scripts/make_venv.sh
	@scripts/make_venv.sh $(VENV)
	@touch $@
