# The verbs of the book. Each line calls one program; what a verb does is written there.
# A verb installs what it needs first; where it may not (no root), it prints the command and stops with 3.

PYTHON ?= $(firstword $(wildcard /usr/bin/python3.11 /usr/bin/python3.12 /usr/bin/python3.13) python3)
ROOTED := $(PYTHON) build/ownroot.py
PRESS  := PYTHONPATH=build .venv/bin/python -m bookpress
BOOK   ?= book.toml
OUT    ?= dist

.DEFAULT_GOAL := help
.PHONY: help book pdf epub web scripts check check-slow test test-slow bench prove serve artefacts green release publish verify stale links contribute-record doctor lock clean setup setup-test setup-torch

help: ## this list
	@grep -hE '^[a-z -]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

book: setup ## PDF, EPUB and web edition into dist/
	@$(PRESS) build --book $(BOOK) --out $(OUT)

pdf epub web: setup ## each of the three outputs alone
	@$(PRESS) $@ --book $(BOOK) --out $(OUT)

scripts: setup ## the instruments: single files, wheel, sdist and zipapp in one tarball
	@$(PRESS) bundle --book $(BOOK) --out $(OUT)

serve: setup ## watch the sources, rebuild the changed page, reload the browser
	@$(PRESS) serve --book $(BOOK)

prove: setup-test ## run, parse or compare every fence; RECORD=1 keeps the marks, REFRESH=1 the outputs
	@PYTHONPATH=build $(ROOTED) .venv/bin/python -m bookpress prove --book $(BOOK) --out $(OUT) $(if $(RECORD),--record) $(if $(REFRESH),--refresh)

check: setup-test ## check the finished outputs in dist/: EPUBCheck, ink, code text, links
	@$(PRESS) check --book $(BOOK) --out $(OUT)

check-slow: setup-test ## the same and the slow checks (Ace)
	@$(PRESS) check --slow --book $(BOOK) --out $(OUT)

test: setup-test ## every test that a quick CI runs
	@$(ROOTED) .venv/bin/python -m pytest -q -m "not slow" -n auto --dist loadfile --no-loadscope-reorder

test-slow: setup-test setup-torch ## the tests that need minutes or large packages
	@$(ROOTED) .venv/bin/python -m pytest -q -m slow

bench: setup-test ## press against Chromium's print-to-PDF, both sides in one run
	@.venv/bin/python tests/bench.py

artefacts: setup ## the files of a release into dist/release/; REPO=OWNER/NAME as for publish
	@$(PRESS) artefacts --book $(BOOK) --out $(OUT) $(if $(REPO),--repo="$$REPO")

green: setup-test ## book, scripts, check and test at a clean commit, noted for publish
	@$(PRESS) green --book $(BOOK) --out $(OUT)

# Values that a person types reach the shell as variables, never as its text.
release: setup-test ## VERSION=1.2.0: build, check and test it in a clone, then commit and tag
	@$(PRESS) release "$$VERSION" --book $(BOOK) --out $(OUT) $(if $(REPO),--repo="$$REPO")

publish: setup-test ## show what would go to the Hub; YES=1 sends it, CREATE=1 creates the repository
	@$(PRESS) publish --book $(BOOK) --out $(OUT) $(if $(REPO),--repo="$$REPO") $(if $(YES),--yes) $(if $(CREATE),--create)

verify: setup ## FROM=FOLDER or URL: compare a release with its SHA256SUMS and provenance.json
	@$(PRESS) verify-release "$$FROM" $(if $(SUMS),--sums-sha256="$$SUMS")

stale: setup ## facts and chapters not verified for longer than their shelf life
	@$(PRESS) stale --book $(BOOK)

links: setup ## links to other sites that lead nowhere (needs the network)
	@$(PRESS) outlinks --book $(BOOK) --out $(OUT) $(if $(BUDGET),--budget="$$BUDGET")

contribute-record: setup-test ## FILE=result.json BY='your name': file a measurement of your machine; YES=1 writes it
	@$(PRESS) contribute-record $(if $(FILE),"$$FILE") --book $(BOOK) $(if $(BY),--by="$$BY") $(if $(YES),--yes)

doctor: setup ## every part, its version, and what is missing
	@$(PRESS) doctor

lock: ## pin the dependencies of pyproject.toml again, with hashes (needs uv)
	@for set in ":requirements.lock" "--extra test --extra publish:requirements-test.lock"; do \
	  uv pip compile --quiet --universal --generate-hashes --python-version 3.11 --no-header \
	    --no-annotate $${set%%:*} pyproject.toml -o $${set##*:} || exit 1; done

clean: ## remove dist/ and .cache/, nothing else
	@rm -rf dist .cache

setup:
	@$(PYTHON) build/bootstrap.py book

setup-test:
	@$(PYTHON) build/bootstrap.py test

# The instruments' tests run real ranks. TORCH_PIP picks another build, for a small CPU one for example:
# make test-slow TORCH_PIP='--index-url https://download.pytorch.org/whl/cpu'
setup-torch:
	@test -x .venv-torch/bin/python || $(PYTHON) -m venv .venv-torch
	@.venv-torch/bin/python -m pip install --quiet $(TORCH_PIP) torch==2.13.0 numpy==2.4.6
