# Two commands do all set-up: `make anneal` runs the main job, `make test` passes the tests.

PYTHON ?= python3
IN_ENVIRONMENT := .venv/bin/python

.PHONY: anneal test lint clean

anneal: .venv/installed
	$(IN_ENVIRONMENT) -m euro_lightning fit -c experiments/anneal.yaml

test: .venv/installed
	$(IN_ENVIRONMENT) -m pytest -n 2

lint: .venv/installed
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(IN_ENVIRONMENT) -m pip install -q -c constraints.txt torch
	$(IN_ENVIRONMENT) -m pip install -q -c constraints.txt -e '.[quickstart,prepare,ray,stable,postgresql,test,dev]'
	touch .venv/installed

clean:
	rm -rf .venv runs stores
