# Everything runs out of `.venv`. Needed beforehand: Python 3.11 or newer, git, make.
# Every path is relative, so that a folder with a space in its name works.

UV_VERSION := 0.13.8
# Writes the list of what is installed; run apart from `.venv`, which needs none of it.
CYCLONEDX_VERSION := 7.5.0
# Lint, render and validate the chart; apart from `.venv` as well, because they take 350 MB.
HELM_VERSION := 0.2.2
MLFLOW_VERSION := 3.17.2
TRACKIO_VERSION := 0.43.0
KUBERNETES_SCHEMAS_VERSION := 1.37.0
VENV := .venv
PY := $(VENV)/bin/python
UV := $(VENV)/bin/uv
INSTALLED := $(VENV)/.installed

# Images for containers often set this. Every process would then compile all it imports anew: 3 s of
# every process with torch, and a minute before the first test.
unexport PYTHONDONTWRITEBYTECODE

# What may be given on the command line:
#   make demo EXIT=1 DATA_DIR=… PORT=…    make test ARGS='tests/house -k torch'
#   make generate UPGRADE=1               make setup TORCH_BACKEND=cpu
#   make offline PYTHON_VERSION=3.12 TORCH=installed
EXIT ?=
DATA_DIR ?=
PORT ?=
ARGS ?=
# Files of tests that run at the same time: more than there are cores, since most wait for processes.
TEST_PROCESSES ?= 4
UPGRADE ?=
SBOM ?= sbom.json
# For `make offline`: the other machine's Python, its processor, and `TORCH=installed` if it has torch.
PYTHON_VERSION ?= 3.11
PROCESSOR ?= x86_64
TORCH ?=
OFFLINE := dist/offline-$(PYTHON_VERSION)-$(PROCESSOR)
# Which build of torch: `auto` looks for a GPU; `none` takes whatever the registry serves first.
TORCH_BACKEND ?= auto

COMPILE := $(UV) pip compile -q pyproject.toml --extra dev --extra wandb --universal -p 3.11 \
	--no-annotate --no-header -c constraints.in
# The same versions with the SHA-256 of every file, for the images; without torch, whose builds for
# one processor or card come from other places and have other digests.
LOCK := $(UV) pip compile -q pyproject.toml --extra server --universal -p 3.11 --no-annotate \
	--no-header -c constraints.txt --generate-hashes

.DEFAULT_GOAL := help
.PHONY: help setup helm boards demo test test-all long kernels check generate bench sbom wheel pictures offline lint types imports drift audit

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

setup: $(INSTALLED) ## Make .venv and install adaptlab with everything pinned

helm: setup ## Install Helm's library and Kubernetes' schemas, with which tests read the chart
	$(UV) venv --quiet --allow-existing $(VENV)/helm
	$(UV) pip install --quiet --python $(VENV)/helm/bin/python helm-python-sdk==$(HELM_VERSION) \
		kubernetes-validate==$(KUBERNETES_SCHEMAS_VERSION) -c constraints.txt

boards: setup ## Install MLflow, Trackio and W&B, to which tests write runs
	$(UV) venv --quiet --allow-existing $(VENV)/mlflow
	$(UV) pip install --quiet --python $(VENV)/mlflow/bin/python mlflow==$(MLFLOW_VERSION)
	$(UV) venv --quiet --allow-existing $(VENV)/trackio
	$(UV) pip install --quiet --python $(VENV)/trackio/bin/python trackio==$(TRACKIO_VERSION)
	$(UV) pip install --quiet --python $(PY) --target $(VENV)/wandb wandb -c constraints.txt

demo: setup ## Run a small real study, leave the server running (EXIT=1 stops it, TASK=text for texts)
	$(VENV)/bin/adaptlab demo $(if $(EXIT),--exit) $(if $(DATA_DIR),--data-dir "$(DATA_DIR)") \
		$(if $(PORT),--port $(PORT)) $(if $(TASK),--task $(TASK))

PYTEST := $(PY) -m pytest -n $(TEST_PROCESSES) --dist loadfile --no-loadscope-reorder

test: setup ## Test every promise once, in 8 minutes on two cores (ARGS=… goes to pytest)
	$(PYTEST) --part short $(ARGS)

test-all: test long kernels ## Test everything, in 25 minutes

long: setup ## Test what `make test` leaves out
	$(PYTEST) --part long $(ARGS)

# Sums are added in another order on another processor, so what holds only here must fail here too.
# Left out are the files that repeat a computation with the same kernels, or compute with integers.
OTHER_KERNELS := ATEN_CPU_CAPABILITY=default MKL_CBWR=COMPATIBLE
NOT_OF_KERNELS := allocator digits early_stopping forgetting generated_benchmarks halving resume tasks

kernels: setup ## Run the tests of engine and theory as on a processor without AVX
	$(OTHER_KERNELS) $(PYTEST) \
		$(NOT_OF_KERNELS:%=--ignore=tests/engine/test_%.py) $(ARGS) tests/engine tests/theory

check: lint types imports drift audit ## Lint, types, import contracts, drift of generated files, audit

lint: setup
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

types: setup
	$(PY) -m pyright

imports: setup
	$(VENV)/bin/lint-imports --no-logo

# That tables and migrations agree is a test (tests/db), because it takes a server.
# The constraints are compared after a fresh resolution that starts from the committed pins.
drift: setup
	$(PY) -m adaptlab_api.openapi --check
	cp constraints.txt $(VENV)/constraints.txt
	$(COMPILE) -o $(VENV)/constraints.txt > /dev/null
	diff constraints.txt $(VENV)/constraints.txt

audit: setup
	$(PY) .ci/audit.py

generate: setup ## Rebuild constraints.txt and openapi.yaml (UPGRADE=1 takes newer versions)
	$(COMPILE) $(if $(UPGRADE),--upgrade) -o constraints.txt > /dev/null
	$(LOCK) -o deploy/server.lock > /dev/null
	$(PY) -m adaptlab_api.openapi
	$(PY) -m adaptlab_client.reference

sbom: setup ## Write what is installed here to sbom.json, as CycloneDX (SBOM=… names another file)
	$(UV) tool run --quiet --from cyclonedx-bom==$(CYCLONEDX_VERSION) --constraints constraints.txt \
		cyclonedx-py environment --output-reproducible --pyproject pyproject.toml \
		--mc-type application -o "$(SBOM)" $(PY)

pictures: setup ## Walk to two verdicts in a browser, with pictures for the documents (20 minutes)
	$(PY) -m pytest --part long -q tests/whole/test_film.py --pictures docs/images

wheel: setup ## Build dist/adaptlab-VERSION-py3-none-any.whl, which holds the whole server
	$(UV) build --quiet --wheel -o dist
	@echo "install it with: pip install '$$(ls -t dist/adaptlab-*.whl | head -1)[stack,worker]' -c constraints.txt"

# The other machine needs glibc 2.28 or newer. pip takes wheels for it only by the exact tags given.
offline: setup ## Put all wheels into dist/, for a machine without network (see docs/how-to)
	rm -rf "$(OFFLINE)"
	mkdir -p "$(OFFLINE)"
	echo '$(if $(TORCH),torch)' > $(VENV)/excluded.txt
	$(UV) pip compile -q pyproject.toml --extra worker --extra stack --extra images -c constraints.txt \
		--python-version $(PYTHON_VERSION) --python-platform $(PROCESSOR)-manylinux_2_28 \
		--excludes $(VENV)/excluded.txt --no-annotate --no-header -o "$(OFFLINE)/requirements.txt"
	$(PY) -m pip download -q --disable-pip-version-check --no-deps --only-binary=:all: \
		--implementation cp --python-version $(PYTHON_VERSION) \
		$(foreach minor,28 27 26 25 24 17 12 5,--platform \
		manylinux_2_$(minor)_$(PROCESSOR)) --platform manylinux2014_$(PROCESSOR) \
		-r "$(OFFLINE)/requirements.txt" -d "$(OFFLINE)"
	$(UV) build -q --wheel -o "$(OFFLINE)"
	@echo "$(OFFLINE) holds $$(ls "$(OFFLINE)" | grep -c whl) wheels, $$(du -sh "$(OFFLINE)" | cut -f1)"

bench: setup ## Measure speed and print the figures (ARGS=… goes to the benchmarks)
	$(PY) -m bench $(ARGS)

# The first Python that runs, is new enough and can make environments; a pyenv shim can be on PATH
# without a Python behind it, so each is tried and not only looked up.
$(PY):
	@for python in python3.11 python3 python3.12 python3.13 python3.14; do \
		if "$$python" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' \
			> /dev/null 2>&1; then \
			echo "making $(VENV) with $$("$$python" --version)"; \
			exec "$$python" -m venv $(VENV); \
		fi; \
	done; \
	echo 'make: no Python 3.11 or newer with venv was found on PATH; install one (on Debian:' \
		'apt install python3-venv) and run make again' >&2; \
	exit 1

$(VENV)/.uv-$(UV_VERSION): | $(PY)
	$(PY) -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@touch $@

# uv does not read pip's settings. Where PIP_FIND_LINKS names a folder of wheels, torch comes from
# there. Elsewhere uv asks PyTorch's own index, and if that cannot be reached, the registry.
$(INSTALLED): pyproject.toml constraints.txt $(VENV)/.uv-$(UV_VERSION)
	@set -e; \
	install() { $(UV) pip install --quiet --python $(PY) "$$@" -c constraints.txt -e '.[dev]'; }; \
	echo 'installing adaptlab and its pinned dependencies into $(VENV)'; \
	if [ -n "$${PIP_FIND_LINKS:-}" ]; then \
		UV_FIND_LINKS="$$(echo "$$PIP_FIND_LINKS" | tr ' ' ',')"; export UV_FIND_LINKS; install; \
	elif [ '$(TORCH_BACKEND)' = none ]; then install; \
	elif ! install --torch-backend '$(TORCH_BACKEND)'; then \
		echo 'make: the build of torch for "$(TORCH_BACKEND)" could not be had; installing the one the' \
			'registry serves, which on Linux brings CUDA along (some GB)' >&2; \
		install; \
	fi
	@$(PY) -m adaptlab_client.reference
	@touch $@
