# litebert: `make help` lists what there is.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
.DEFAULT_GOAL := help

$(VENV)/installed: pyproject.toml constraints.txt hatch_build.py src/litebert/inference/native/encoder.c
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip -c constraints.txt
	$(BIN)/pip install --quiet torch -c constraints.txt
	$(BIN)/pip install --quiet -e ".[dev]" -c constraints.txt
	touch $@

.PHONY: install quickstart test check bench soak docs site screenshots clients release help
install: $(VENV)/installed ## install litebert and all it needs into .venv

quickstart: install ## install, then go from the documentation on this machine to a trained encoder (10 minutes)
	$(BIN)/litebert quickstart --out quickstart

test: install ## run the tests (a few minutes)
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n auto --dist worksteal -m "not soak" --doctest-modules src tests

check: install ## lint, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: install ## measure against peers: a training step, text to batches, quality over time, fine-tuning (2 hours); write benchmarks/results
	$(BIN)/python benchmarks/layer_parts.py
	$(BIN)/python benchmarks/train_step.py
	$(BIN)/python benchmarks/corpus.py
	$(BIN)/python benchmarks/time_to_quality.py --out runs/time-to-quality
	$(BIN)/python benchmarks/loop.py --corpus runs/time-to-quality/corpus
	$(BIN)/python benchmarks/recipe.py --corpus runs/time-to-quality/corpus
	$(BIN)/litebert example-task --out runs/libraries
	$(BIN)/python benchmarks/finetune.py --model "runs/time-to-quality/litebert, budget/model" --texts runs/libraries/train.jsonl

soak: install ## the long tests: full-size parity, memory, mutated files and killed runs by the hundred, an hour of load
	$(PYTHON) -m venv .venv-fuzz && .venv-fuzz/bin/pip install --quiet "schemathesis>=4.32,<5" -c constraints.txt || true
	LITEBERT_SCHEMATHESIS=.venv-fuzz/bin/schemathesis $(BIN)/python -m pytest -m soak -rA tests

docs: install ## check that every command and link in the documentation holds
	$(BIN)/python -m pytest tests/test_readme.py tests/test_docs.py

screenshots: install ## drive the server's page in the system's Chromium, look for what shuts people out, write docs/screenshots (needs npm)
	$(BIN)/pip install --quiet playwright -c constraints.txt
	folder=$$(mktemp -d) && trap 'rm -rf '$$folder EXIT && (cd $$folder && npm pack --silent axe-core && tar xzf axe-core-*.tgz) && \
	LITEBERT_AXE=$$folder/package/axe.min.js LITEBERT_SCREENSHOTS=docs/screenshots \
	$(BIN)/python -m pytest -p no:xdist tests/serve/test_page.py

clients: ## try the server with clients as they are: openai (Python, JavaScript), LangChain, LlamaIndex, Cohere (needs npm)
	$(PYTHON) -m venv .venv-clients
	.venv-clients/bin/pip install --quiet -e ".[serve]" pytest hypothesis openai langchain-openai langchain-cohere cohere \
	llama-index-embeddings-openai-like llama-index-postprocessor-cohere-rerank llama-index-postprocessor-tei-rerank
	folder=$$(mktemp -d) && trap 'rm -rf '$$folder EXIT && (cd $$folder && npm install --silent openai) && \
	NODE_PATH=$$folder/node_modules .venv-clients/bin/python -m pytest -W default -p no:asyncio -rs tests/serve/test_clients.py

site: install ## build the documentation into site/, with the tour
	$(BIN)/pip install --quiet "sphinx>=9,<9.1" myst-parser furo
	$(BIN)/python -m sphinx -W --keep-going -q -b html -c docs -d site/.doctrees . site

release: install ## build the wheel and the sdist into dist/, and try the wheel in a clean environment outside of this folder
	rm -rf dist
	$(BIN)/python -m hatchling build -d dist
	$(BIN)/python -m zipfile -l dist/*.whl | grep -q litebert/reports/templates/base.html
	trial=$$(mktemp -d) && trap 'rm -rf '$$trial EXIT && $(PYTHON) -m venv $$trial/venv && \
	$$trial/venv/bin/pip install --quiet dist/*.whl -c constraints.txt && \
	du -sm $$trial/venv && ! $$trial/venv/bin/python -c "import torch" 2> /dev/null && \
	$$trial/venv/bin/litebert embed "a text" --dimensions 4 && \
	$$trial/venv/bin/litebert search README.md "how do I make a BERT small?" --top 1 && \
	$$trial/venv/bin/pip install --quiet torch -c constraints.txt && \
	$$trial/venv/bin/pip install --quiet "$$(ls dist/*.whl)[train]" -c constraints.txt && \
	cd $$trial && unset PYTHONPATH && \
	venv/bin/litebert --version && \
	venv/bin/litebert models --json > models.json && \
	venv/bin/python -c "import litebert; print(litebert.Model.from_pretrained('albert-mini'))" > model.txt && \
	export HF_HUB_OFFLINE=1 && printf 'text,label\n' > table.csv && \
	printf 'good film %s,a\nbad film %s,b\n' 1 1 2 2 3 3 4 4 5 5 >> table.csv && \
	venv/bin/litebert embed "a text" --dimensions 4 && \
	venv/bin/litebert search $(CURDIR)/README.md "how do I make a BERT small?" --top 1 && \
	venv/bin/litebert finetune table.csv --steps 2 --out table-run && \
	venv/bin/pip check --quiet
	ls -l dist

help: ## this list
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1|\2/' | column -t -s '|'
