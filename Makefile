# `make run` makes .venv and installs the package into it, `make test` the development tools too; under constraints.txt.
# A .venv without a working Python, or with the package of another checkout (a copied .venv), is made anew.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/installed
READY := .venv/ready
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
# An oracle of the curvature tests; its backpack, which nothing here calls, would bring torchvision.
WITHOUT_NEEDS := curvlinops-for-pytorch einconv einops linear_operator opt_einsum

SAME := import fedflat; from os.path import realpath; assert realpath(fedflat.__file__) == realpath("src/fedflat/__init__.py")
OURS := $(shell $(BIN)/python -I -c '$(SAME)' 2>/dev/null && echo yes)

# The suite starts hundreds of processes: each would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE
# It could name another checkout.
unexport PYTHONPATH

.PHONY: run test coverage test-slow test-hostile bench lint docs clean anew

$(INSTALLED): pyproject.toml constraints.txt $(if $(OURS),,anew)
	$(if $(OURS),,rm -rf .venv)
	$(PYTHON) -m venv .venv
	$(PIP) --editable .
	touch $(INSTALLED)

$(READY): $(INSTALLED)
	$(PIP) --editable '.[dev]'
	$(PIP) --no-deps $(WITHOUT_NEEDS)
	touch $(READY)

run: $(INSTALLED)  ## compare four methods on the embedded digits
	$(BIN)/fedflat compare fedavg "fedsam(rho=0.2)" "fedasam(rho=0.5) + swa()" "fedgloss(rho_s=0.15, rho_l=0.15)" \
	  --on "digits(lda(0))" --rounds 400 --clients-per-round 5 --local-epochs 5 --batch-size 16 --lr 0.05 \
	  --eval-last 100 --target 90%

test: $(READY)  ## the whole suite
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

coverage: $(READY)  ## the same, half as long again, and which lines of src it went through
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow" --cov --cov-report=term

test-slow: $(READY)  ## every method in real worker processes, every benchmark in small, tables stopped in three ways
	OMP_NUM_THREADS=1 PYTHONPATH=tests $(BIN)/python -m pytest -m slow

test-hostile: $(READY)  ## wrong texts and options, damaged folders, fresh draws, kills: a quarter of an hour; HOSTILE_SEED=7 again
	OMP_NUM_THREADS=1 PYTHONPATH=tests $(BIN)/python -m hostile

bench: $(READY)  ## speed against bare PyTorch, on a quiet machine: about half an hour; values in bench.json
	PYTHONPATH=benchmarks $(BIN)/python benchmarks/bench.py

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

docs: $(READY)  ## the documentation site in docs/_build/html; offline, warnings are errors
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going --builder html docs docs/_build/html

clean:
	rm -rf docs/_build .venv .pytest_cache .mypy_cache .ruff_cache .coverage
