# The only list of commands. `make demo` and `make test` need a Rust toolchain, make, git and Debian's packages.

SHELL := /bin/bash
.DEFAULT_GOAL := help
AXE := 4.14.1
PG_BIN := $(lastword $(sort $(wildcard /usr/lib/postgresql/*/bin)))

.PHONY: help demo test soak check bench fmt postgres faketime chromium axe nextest mutants units screenshots

help: ## list the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: ## a mediator, three agents, real work and a queue of tickets on this machine; ends by itself
	cargo build --locked --workspace --bins
	cargo run --locked --quiet -p tests --bin demo

test: postgres faketime chromium axe nextest ## everything that is not a long soak, on SQLite and PostgreSQL
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	cargo build --locked --workspace --all-targets
	cargo run --locked --quiet -p tests --bin with-postgres -- cargo nextest run --locked --workspace

bench: postgres ## every figure of docs/performance.md (release build); ARGS="noop reconnect" chooses by name
	cargo build --locked --release --workspace --bins
	cargo run --locked --release --quiet -p tests --bin bench -- $(ARGS)

soak: nextest ## the long simulation: 20,000 seeds, more states of the model, and a million inputs of any bytes
	SIM_SEEDS=$${SIM_SEEDS:-20000} MODEL_STATES=$${MODEL_STATES:-200000} cargo nextest run --locked --profile soak -p shared --test sim --test model
	FUZZ_INPUTS=$${FUZZ_INPUTS:-100000} cargo nextest run --locked --profile soak -p shared -p mediator -p enode -E 'test(/_or_refused|_or_nothing|refused_by_name/)'

mutants: nextest postgres ## take out one guard at a time and see the simulation or a test notice; prints two tables
	tests/mutants/run
	tests/mutants/guards

units: ## start the systemd units of deploy/ under a real systemd, in namespaces; needs root
	@if [ ! -x /lib/systemd/systemd ] || [ ! -x /usr/bin/dbus-daemon ]; then \
	  echo "systemd is missing: installing Debian's packages systemd and dbus"; \
	  apt-get update -qq && apt-get install -y -qq systemd dbus; \
	fi
	cargo build --locked --workspace --bins
	tests/units/run

screenshots: chromium nextest ## pictures of the panel's pages at 360 and 1280 px, dark and light, in target/screenshots
	PANEL_SCREENSHOTS=$(CURDIR)/target/screenshots cargo nextest run --locked -p enode --test panel -E 'test(screenshots)'
	@ls target/screenshots

fmt: ## format
	cargo fmt --all

postgres:
	@if [ -z "$(PG_BIN)" ]; then \
	  echo "PostgreSQL is missing: installing Debian's package postgresql"; \
	  if [ "$$(id -u)" != 0 ]; then SUDO=sudo; fi; \
	  $$SUDO apt-get update -qq && $$SUDO apt-get install -y -qq postgresql; \
	fi

faketime:
	@if ! ls /usr/lib/*/faketime/libfaketimeMT.so.1 >/dev/null 2>&1; then \
	  echo "libfaketime is missing: installing Debian's package faketime"; \
	  if [ "$$(id -u)" != 0 ]; then SUDO=sudo; fi; \
	  $$SUDO apt-get update -qq && $$SUDO apt-get install -y -qq faketime; \
	fi

chromium:
	@if [ ! -x /usr/bin/chromium ]; then \
	  echo "Chromium is missing: installing Debian's package chromium"; \
	  if [ "$$(id -u)" != 0 ]; then SUDO=sudo; fi; \
	  $$SUDO apt-get update -qq && $$SUDO apt-get install -y -qq --no-install-recommends chromium; \
	fi

axe: # the accessibility checker that the panel's tests show the pages to
	@if ! grep -qs '"version": "$(AXE)"' target/axe/node_modules/axe-core/package.json; then \
	  echo "axe-core is missing: installing it with npm into target/axe"; \
	  if ! command -v npm >/dev/null; then \
	    if [ "$$(id -u)" != 0 ]; then SUDO=sudo; fi; \
	    $$SUDO apt-get update -qq && $$SUDO apt-get install -y -qq --no-install-recommends npm; \
	  fi; \
	  mkdir -p target/axe; \
	  npm install --prefix target/axe --no-save --no-audit --no-fund axe-core@$(AXE); \
	fi

nextest:
	@cargo nextest --version >/dev/null 2>&1 || { \
	  echo "cargo-nextest is missing: installing it with cargo"; cargo install --locked cargo-nextest; }
