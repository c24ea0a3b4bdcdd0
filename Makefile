# `make test` is the whole check of the project, and what CI runs.
# What it needs beyond cargo and python3 it installs itself, into .venv-sumo.

SUMO_VENV := .venv-sumo
PEERS_VENV := .venv-peers
TORCH_VENV := .venv-torch
SEALED_VENV := .venv-sealed
PYTHON_VENV := .venv-python
FUZZ_SECONDS ?= 60
# Tests that need SUMO must find it here: a test that skips itself proves nothing.
TEST_ENV := FEDTSE_REQUIRE_SUMO=1 FEDTSE_REQUIRE_POSTGRES=1 RUST_BACKTRACE=0
# A machine that builds once needs no gigabytes that make the next build shorter, and no lines in backtraces.
ifdef CI
export CARGO_INCREMENTAL = 0
export CARGO_PROFILE_DEV_DEBUG = false
export CARGO_PROFILE_RELEASE_DEBUG = false
endif

.PHONY: test wheel wheel-build test-torch bench-python fmt clippy unit doc licences fuzz fuzz-fixed readme sumo peers torch kills bench bench-train bench-federation bench-sealed bench-sealed-training bench-sealed-size bench-map bench-sums bench-city browser containers tables clean-venvs

test: fmt clippy unit doc licences readme wheel browser containers fuzz-fixed
	@echo "make test: all checks passed"

fmt:
	cargo fmt --all --check

clippy:
	cargo clippy --locked --workspace --all-targets -- -D warnings

unit: sumo
	$(TEST_ENV) scripts/with_postgres.sh cargo test --locked --workspace --no-fail-fast

doc:
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps

licences:
	python3 scripts/check_licences.py

readme: sumo
	cargo build --locked --release
	python3 scripts/check_readme.py
	python3 scripts/check_tutorials.py
	python3 scripts/accuracy_tables.py

# The wheel for Python, in release since its parts are built for `readme` anyway; installed into a virtual
# environment of its own and tested there, the notebooks too.
WHEELS := target/wheels
wheel: wheel-build sumo
	$(PYTHON_VENV)/bin/python -m pytest --quiet python/tests

wheel-build: $(PYTHON_VENV)/installed
	rm -f $(WHEELS)/*.whl
	$(PYTHON_VENV)/bin/maturin build --quiet --locked $(WHEEL_PROFILE) -m python/Cargo.toml --out $(WHEELS)
	$(PYTHON_VENV)/bin/pip install --quiet --disable-pip-version-check --no-deps --force-reinstall $(WHEELS)/*.whl
WHEEL_PROFILE ?= --release
$(PYTHON_VENV)/installed: scripts/python.txt
	python3 -m venv $(PYTHON_VENV)
	$(PYTHON_VENV)/bin/pip install --quiet --disable-pip-version-check -r scripts/python.txt
	touch $@

# A guest with a sub-model in PyTorch against the Rust host, beside the built-in one.
test-torch: torch wheel-build
	$(TORCH_VENV)/bin/pip install --quiet --disable-pip-version-check --no-deps --force-reinstall $(WHEELS)/*.whl
	$(TORCH_VENV)/bin/python scripts/torch_guest.py $(TORCH_GUEST)

# What the boundary to Python costs, on a quiet machine.
bench-python: wheel-build
	cargo build --locked --release
	$(PYTHON_VENV)/bin/python scripts/bench_python.py --write

# The live map in headless Chromium, which it installs if there is none.
browser:
	cargo build --locked --release
	scripts/browser.sh

containers: $(PYTHON_VENV)/installed
	cargo build --locked --release
	$(PYTHON_VENV)/bin/python scripts/check_containers.py

# The same inputs each time.
fuzz-fixed:
	scripts/fuzz.sh

# Others each time, FUZZ_SECONDS for each target.
fuzz:
	scripts/fuzz.sh $(FUZZ_SECONDS)

# SUMO, pinned: results differ between versions.
sumo: $(SUMO_VENV)/installed
$(SUMO_VENV)/installed: scripts/sumo.txt
	python3 -m venv $(SUMO_VENV)
	$(SUMO_VENV)/bin/pip install --quiet --disable-pip-version-check -r scripts/sumo.txt
	touch $@

# The peers that benchmarks and reference tables run against.
peers: $(PEERS_VENV)/installed
$(PEERS_VENV)/installed: scripts/peers.txt
	python3 -m venv $(PEERS_VENV)
	$(PEERS_VENV)/bin/pip install --quiet --disable-pip-version-check -r scripts/peers.txt
	touch $@

# PyTorch, for the training benchmark: 5.4 GB installed, since the usual wheel for Linux needs its GPU
# libraries even on a CPU. An index of CPU-only wheels can be given by PIP_EXTRA_INDEX_URL.
torch: $(TORCH_VENV)/installed
$(TORCH_VENV)/installed: scripts/torch.txt
	python3 -m venv $(TORCH_VENV)
	$(TORCH_VENV)/bin/pip install --quiet --disable-pip-version-check -r scripts/torch.txt
	touch $@

# Kills random parties of a federation, fifty times; takes a minute after the build.
kills:
	FEDTSE_KILLS=50 RUST_BACKTRACE=0 cargo test --locked --release -p fedtse --test federation killed

bench: sumo peers
	cargo build --release --workspace --examples --bins
	$(PEERS_VENV)/bin/python scripts/bench.py $(BENCH)

# The paper's tables and figures, and our own: many hours. What is finished is kept, in results/.
tables: sumo peers
	cargo build --locked --release
	target/release/fedtse reproduce all --publish docs/results $(TABLES)
	python3 scripts/accuracy_tables.py --write

# Training against PyTorch, on a quiet machine: other jobs delay PyTorch's threads most of all.
bench-train: torch
	cargo build --locked --release -p neural --examples
	$(TORCH_VENV)/bin/python scripts/bench_train.py $(BENCH)

# A federation over the network against the same rounds in one process, on a quiet machine.
bench-federation:
	cargo build --locked --release
	python3 scripts/bench_federation.py --write

# The map's API under load beside a live federation, on a quiet machine.
bench-map:
	cargo build --locked --release
	python3 scripts/bench_map.py --write

# Sums over guests beside embeddings in the clear, over the network, on a quiet machine.
bench-sums:
	cargo build --locked --release
	scripts/bench_sums.py --write

# How fast the page is with a city of links, in a browser.
bench-city:
	cargo build --release -p server --example load
	scripts/browser.sh bench $(BENCH)

# Secure products against TenSEAL and Paillier; and our noise against opendp's.
bench-sealed: $(SEALED_VENV)/installed
	cargo build --locked --release -p sealed --examples
	$(SEALED_VENV)/bin/python scripts/bench_sealed.py --check-noise
	$(SEALED_VENV)/bin/python scripts/bench_sealed.py --write $(BENCH)
# FedTSE-PI trained clear, sealed and sealed+noise, on a quiet machine.
bench-sealed-training:
	cargo build --locked --release
	python3 scripts/bench_sealed_training.py

bench-sealed-size: sumo
	cargo build --locked --release
	python3 scripts/bench_sealed_size.py

$(SEALED_VENV)/installed: scripts/sealed.txt
	python3 -m venv $(SEALED_VENV)
	$(SEALED_VENV)/bin/pip install --quiet --disable-pip-version-check -r scripts/sealed.txt
	touch $@

clean-venvs:
	rm -rf $(SUMO_VENV) $(PEERS_VENV) $(TORCH_VENV) $(SEALED_VENV) $(PYTHON_VENV)
