# make book: set up, execute every chapter, build the site. make test: set up, run what CI runs.
PYTHON ?= python3
VENV := .venv
OLDEST := .venv-oldest
LAB := .venv-lab
LOCKER := .venv-lock
RUN := $(VENV)/bin/python
BUILD := $(RUN) -m clcore build
SMOKE := CLCORE_BUILD=_build/smoke $(BUILD) --profile smoke
ARGS ?=

# What Python has compiled is kept: else each of the hundreds of processes that builds and tests start
# compiles clcore again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help book check test test-all oldest test-code test-site paper smoke serve gpu pdf course grade publish lab lock setup lint soak mutants seeds fuzz clean
.DEFAULT_GOAL := book

# Python compiles what is imported when it first is: half of this time would go to files that never are.
PIP := -m pip install --disable-pip-version-check --progress-bar off --no-compile
# Every file by its hash, wheels alone: a source distribution would fetch what builds it, unlocked.
LOCKED := $(PIP) --require-hashes --only-binary :all: --no-deps -r

# Of a Python that came later than the locks, some packages have no file there, which pip tells as a
# version that it cannot find.
UNLOCKED = v=$$($(RUN) -c 'import platform; print(platform.python_version())'); \
	printf '%s\n' "" "The set-up stopped, under Python $$v. If pip found no version of a package above, locks/ has no file of it" \
	"for this Python: take another, such as 3.11 to 3.13, with: rm -r $(VENV); make PYTHON=python3.11" >&2

# PyTorch's build for the CPU is on no index that pip knows by itself. It is taken where it lies in a folder
# that pip is told of (PIP_FIND_LINKS), or is in .venv already. What only the CUDA build needs comes after it.
# The stamp is written last, so a set-up that was interrupted is taken up again. The book itself is
# linked without a look at the index, so with all of it there this needs no network.
$(VENV)/.ready: requirements.txt pyproject.toml locks/cpu.txt locks/everything.txt locks/cuda.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info[:3]; v >= (3, 11, 5) or sys.exit("Python 3.11.5 or newer is needed, %s is %d.%d.%d; try make PYTHON=python3.12" % (("$(PYTHON)",) + v))'
	$(PYTHON) -m venv $(VENV)
	@$(RUN) $(LOCKED) locks/cpu.txt --no-index --quiet 2>/dev/null || \
	echo "PyTorch: no build for the CPU of locks/cpu.txt where pip looks for files; taking the index's"
	@$(RUN) $(LOCKED) locks/everything.txt || { $(UNLOCKED); exit 1; }
	@if grep -q "^Requires-Dist: nvidia" $(VENV)/lib/python*/site-packages/torch-*.dist-info/METADATA; \
	then $(RUN) $(LOCKED) locks/cuda.txt; fi
	$(RUN) $(PIP) --no-deps --no-build-isolation -e .
	@$(RUN) -m pip check --disable-pip-version-check
	@$(RUN) -m clcore.book.programs.pyodide
	@touch $@

# Two that begin at once would install into one folder: the second waits. Where nothing is to be done,
# nobody is waited for.
setup:
	@$(MAKE) --no-print-directory --question $(VENV)/.ready 2>/dev/null || \
	$(PYTHON) locks/alone.py .venv.lock $(MAKE) --no-print-directory $(VENV)/.ready

# One line per target that a reader needs; CONTRIBUTING.md and book/contributing.md have the others.
help:
	@printf '  make %-26s %s\n' \
	"book" "run the chapters that changed, build the site into _build/html" \
	"serve" "show the site at http://127.0.0.1:8000/" \
	"paper" "run the chapters at the sizes of the papers: hours" \
	"lab" "open the chapters in JupyterLab" \
	"course" "slides, notebooks, handout and plans, from the last build" \
	"grade FOLDER=submissions" "judge the notebooks in a folder" \
	"pdf" "the book on paper, from the last build" \
	"publish" "put the site on the branch gh-pages" \
	"gpu" "what needs a CUDA device: tests, chapters, image tables" \
	"check CLAIM=nl/thm4" "one check that you edit: style, verdict, its tests" \
	"lint" "style, types and the order of imports" \
	"test" "lint, the book in its smallest profile, tests" \
	"clean" "delete what builds have made"
	@printf '%s\n' '' '  ARGS passes options on: make book ARGS="--only 1-minmax"'

book: setup
	@$(BUILD) --profile book $(ARGS)

paper: setup
	@$(BUILD) --profile paper $(ARGS)

smoke: setup
	@$(SMOKE) $(ARGS)

# What needs a CUDA device, within a limit of time: ARGS="--minutes 10 --out found".
gpu: setup
	@$(RUN) -m clcore gpu $(ARGS)

serve: setup
	@$(RUN) -m clcore serve $(ARGS)

# What the last build made: on paper, as a course, on the branch that a static host serves.
pdf: setup
	@$(RUN) -m clcore pdf $(ARGS)

course: setup
	@$(RUN) -m clcore course $(ARGS)

# Notebooks that were handed in, to a table of points: make grade FOLDER=submissions.
grade: setup
	@test -n "$(FOLDER)" || { echo "make grade needs the folder: make grade FOLDER=submissions" >&2; exit 1; }
	@$(RUN) -m clcore grade "$(FOLDER)" $(ARGS)

publish: setup
	@$(RUN) -m clcore publish $(ARGS)

# JupyterLab has an environment of its own: in .venv its packages would change every chapter's cache key.
# Its kernel is .venv's Python.
$(LAB)/.ready: locks/lab.txt
	$(PYTHON) -m venv $(LAB)
	$(LAB)/bin/python $(LOCKED) $<
	@touch $@

lab: setup $(LAB)/.ready
	@$(RUN) -m ipykernel install --prefix $(LAB) --name python3 --display-name "Python 3 (clcore)" >/dev/null
	@cd chapters && ../$(LAB)/bin/jupyter-lab $(ARGS)

# The hashes in locks/, from requirements.txt and binder/lab.txt: after either was edited.
$(LOCKER)/.ready: locks/uv.txt
	$(PYTHON) -m venv $(LOCKER)
	$(LOCKER)/bin/python $(LOCKED) $<
	@touch $@

lock: $(LOCKER)/.ready
	@$(LOCKER)/bin/python locks/make.py

# The library under the oldest releases that pyproject.toml allows, PyTorch's CUDA build among them: its
# tests, but those of image sets. No part of `make test`, for it downloads 3 GB.
$(OLDEST)/.ready: pyproject.toml $(LOCKER)/.ready
	$(PYTHON) -m venv $(OLDEST)
	$(LOCKER)/bin/python -m uv pip install --python $(OLDEST) --resolution lowest-direct \
	-e . "scikit-learn>=1.4" $$(grep -E "^(pytest|beartype|hypothesis)==" requirements.txt)
	@touch $@

oldest: $(OLDEST)/.ready
	$(OLDEST)/bin/python -m pytest tests/losses tests/sweep tests/nets tests/test_random.py tests/test_stats.py \
	tests/grid/test_grid.py tests/test_library_page.py $(ARGS)

# Style, types, and the floors of clcore: arrows point down only. The rules are in pyproject.toml.
lint: setup
	@$(RUN) -m ruff check . && $(RUN) -m ruff format --check .
	@$(RUN) -m ty check --python $(VENV)
	@$(VENV)/bin/lint-imports --no-cache

# Two processes take whole files, those that take longest first, so that tests which share a fixture
# stay together and in order. ARGS go to pytest: ARGS="-n 8", ARGS="-n 0 -x -k ledger"; with them, one
# of the two halves below may have nothing to do.
PYTEST := OMP_NUM_THREADS=1 $(RUN) -m pytest -n 2 --dist loadfile --no-loadscope-reorder
NONE := $(if $(ARGS),|| [ $$? = 5 ])

# The halves run side by side: where the one leaves a core idle, as at the end of a build, the other
# has work for it.
test: setup
	@$(MAKE) --no-print-directory --jobs 2 test-code test-site

test-code: lint
	@$(PYTEST) -m "not site and not slow" $(ARGS) $(NONE)

# Otter, which make test-all grades with, has an environment of its own beside the book's packages.
OTTER := .venv-otter
$(OTTER)/.ready: locks/otter.txt
	$(PYTHON) -m venv $(OTTER)
	@$(RUN) -c 'import site; print("import site; site.addsitedir(%r)" % site.getsitepackages()[0])' > $$($(OTTER)/bin/python -c 'import site; print(site.getsitepackages()[0])')/book.pth
	$(OTTER)/bin/python $(PIP) -r $<
	@touch $@

# Everything: `make test`, and what it leaves out, on the site that it made. axe looks at all pages, and
# tests run that depend on few files, of which none has changed since the main branch.
test-all: test $(OTTER)/.ready
	@CLCORE_SITE=_build/smoke/html CLCORE_OTTER=$(OTTER)/bin/otter $(PYTEST) -m slow $(ARGS) $(NONE)

# For one check that is edited: make check CLAIM=nl/thm4. Style of its file, verdict, tests.
check: setup
	@test -n "$(CLAIM)" || { echo "make check needs a claim: make check CLAIM=nl/thm4" >&2; exit 1; }
	@$(RUN) tests/one_check.py "$(CLAIM)"

# These tests look at a site made from the chapters in their smoke profile. The checks run once, in
# that build, under the checker of signatures that the tests have; the tests read what they found.
test-site: setup
	@CLCORE_STARTUP=tests/typechecking.py $(SMOKE)
	@CLCORE_SITE=_build/smoke/html $(PYTEST) -m "site and not slow" $(ARGS) $(NONE)

# Builds that are killed and damaged at random come to the same as one that is not: ARGS="--rounds 20 --seed 1".
soak: setup
	@$(RUN) tests/soak.py $(ARGS)

# How the checks are checked: formulas of clcore are changed one at a time, and the checks and the tests
# asked whether anybody notices. No part of `make test`, for it takes hours; an interrupted run resumes.
# ARGS="--modules losses --sample 40 --seed 3"; ARGS="--seed 9 --sample 150 --record" adds a held-out lot
# to the page, with --practice instead of --record one to improve checks and tests by.
mutants: setup
	@OMP_NUM_THREADS=1 $(RUN) tests/mutation $(ARGS)

# No verdict hangs on the seed: every check on draws at others. ARGS="--seeds 8 --workers 2 --record",
# ARGS="--only nl/thm3".
seeds: setup
	@OMP_NUM_THREADS=1 $(RUN) tests/seeds.py $(ARGS)

# Corrections of ours are tried harder: every corrected form at ten thousand inputs inside its own
# conditions, hours. ARGS="--papers nl --seconds 60", ARGS=--record for the page.
fuzz: setup
	@OMP_NUM_THREADS=1 $(RUN) tests/fuzz.py $(ARGS)

# What builds have made, wherever CLCORE_BUILD says. What is not theirs stays, and is named.
clean:
	@test -x $(RUN) || { echo "make clean needs $(VENV): run make setup first" >&2; exit 1; }
	@$(RUN) -m clcore clean
