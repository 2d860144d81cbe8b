# make book: set up, execute every chapter, build the site. make test: set up, run what CI runs.
PYTHON ?= python3
VENV := .venv
LAB := .venv-lab
RUN := $(VENV)/bin/python
BUILD := $(RUN) -m clcore build
SMOKE := CLCORE_BUILD=_build/smoke $(BUILD) --profile smoke
ARGS ?=

.PHONY: book test mutants paper smoke serve pdf course publish lab setup lint clean
.DEFAULT_GOAL := book

# The stamp is written last, so a set-up that was interrupted is taken up again.
$(VENV)/.ready: requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info[:3]; v >= (3, 11) or sys.exit("Python 3.11 or newer is needed, %s is %d.%d.%d; try make PYTHON=python3.12" % (("$(PYTHON)",) + v))'
	$(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --disable-pip-version-check --progress-bar off -r requirements.txt
	@touch $@

setup: $(VENV)/.ready

book: setup
	@$(BUILD) --profile book $(ARGS)

paper: setup
	@$(BUILD) --profile paper $(ARGS)

smoke: setup
	@$(SMOKE) $(ARGS)

serve: setup
	@$(RUN) -m clcore serve $(ARGS)

# What the last build made: on paper, as a course, on the branch that a static host serves.
pdf: setup
	@$(RUN) -m clcore pdf $(ARGS)

course: setup
	@$(RUN) -m clcore course $(ARGS)

publish: setup
	@$(RUN) -m clcore publish $(ARGS)

# JupyterLab has an environment of its own: in .venv its packages would change every chapter's cache key.
# Its kernel is .venv's Python.
$(LAB)/.ready: binder/lab.txt
	$(PYTHON) -m venv $(LAB)
	$(LAB)/bin/python -m pip install --disable-pip-version-check --progress-bar off -r $<
	@touch $@

lab: setup $(LAB)/.ready
	@$(RUN) -m ipykernel install --prefix $(LAB) --name python3 --display-name "Python 3 (clcore)" >/dev/null
	@cd chapters && ../$(LAB)/bin/jupyter-lab $(ARGS)

# Style, types, and the floors of clcore: arrows point down only. The rules are in pyproject.toml.
lint: setup
	@$(RUN) -m ruff check . && $(RUN) -m ruff format --check .
	@$(RUN) -m ty check --python $(VENV)
	@$(VENV)/bin/lint-imports --no-cache

# The browser tests look at a site made from the chapters in their smoke profile. Two processes take
# whole files, so that tests which share a fixture stay together and in order. ARGS go to pytest:
# ARGS="-n 8", ARGS="-n 0 -x -k ledger". The checks run once, in that build, under the checker of
# signatures that the tests have; the tests read what they found.
test: lint
	@CLCORE_STARTUP=tests/typechecking.py $(SMOKE)
	@CLCORE_SITE=_build/smoke/html OMP_NUM_THREADS=1 $(RUN) -m pytest -n 2 --dist loadfile $(ARGS)

# How the checks are checked: formulas of clcore are changed one at a time, and the checks and the tests
# asked whether they notice. No part of `make test`, for it takes hours; stopped, it goes on where it was.
# ARGS="--modules losses --sample 40 --seed 3"; ARGS="--modules ledger --sample 0" asks about the judge.
mutants: setup
	@OMP_NUM_THREADS=1 $(RUN) tests/mutation $(ARGS)

clean:
	rm -rf _build
