# One entry point. `make help` lists the targets.
BUILD ?= build
# Tests of what has threads. The launcher has none, and a sanitizer's own thread keeps it from entering namespaces.
THREADED = api audit cli client compile core daemon/log_file loop node store watch webhook

.PHONY: all docs bootstrap setup demo test test-long check asan tsan stress fuzz bench bench-memory cost soak bench-beam bench-compile bench-watch bench-reload bench-limits bench-ports bench-siege test-frozen test-compile-large test-packages test-distros compat test-rebar3 test-toolchains cross-arm64 test-vm install deb clean help format

all: setup ## build everything
	@ninja -C $(BUILD) --quiet

bootstrap: ## install the Debian packages that are missing
	@tools/bootstrap.sh

setup: bootstrap
	@test -f $(BUILD)/build.ninja || { echo "configuring $(BUILD)"; meson setup $(BUILD) . >/dev/null || { tail -n 20 $(BUILD)/meson-logs/meson-log.txt; exit 1; }; }

demo: all ## tell the story in a few seconds, on the real programs
	@$(BUILD)/bin/sandbox demo

test: all ## build and run the tests, in half a minute; what boots many VMs is left to test-long
	@tools/test.sh $(BUILD)

test-long: all ## every test, with the cases that `make test` leaves out: before an issue is resolved
	@TESTS_AT_LENGTH=1 tools/test.sh $(BUILD)

check: all ## formatting, includes and static analysis
	@tools/check.sh $(BUILD)

asan: bootstrap ## every test under AddressSanitizer and UBSan
	@test -f $(BUILD)-asan/build.ninja || meson setup $(BUILD)-asan . -Db_sanitize=address,undefined -Db_lundef=false >/dev/null
	@ninja -C $(BUILD)-asan --quiet
	@TESTS_AT_LENGTH=1 SLOWNESS=8 tools/test.sh $(BUILD)-asan

tsan: bootstrap ## what has threads, under ThreadSanitizer
	@test -f $(BUILD)-tsan/build.ninja || meson setup $(BUILD)-tsan . -Db_sanitize=thread -Db_lundef=false >/dev/null
	@ninja -C $(BUILD)-tsan --quiet
	@TSAN_OPTIONS="suppressions=$(CURDIR)/tests/tsan.suppressions" SLOWNESS=8 tools/test.sh $(BUILD)-tsan $(THREADED)

stress: all ## a hundred sandboxes at once, and ten of them attacking; large projects; saves by the thousand; reloads under load, many at once and cut short by deaths; every attack at every profile, and while compiling
	@MANY_SANDBOXES=100 $(BUILD)/tests/integration/test_many
	@$(BUILD)/tests/integration/test_torn
	@$(BUILD)/tests/integration/test_large
	@$(BUILD)/tests/integration/test_besieged
	@meson test -C $(BUILD) --no-rebuild --benchmark --verbose agent/stress agent/schedulers
	@$(BUILD)/tests/integration/test_reload_torn
	@$(BUILD)/tests/integration/test_sources
	@$(BUILD)/tests/integration/test_compile_changes
	@WATCH_AT_LENGTH=1 $(BUILD)/tests/integration/test_watch
	@COMPILE_AT_LENGTH=1 $(BUILD)/tests/integration/test_compile
	@COMPILE_AT_LENGTH=1 $(BUILD)/tests/integration/test_mix
	@COMPILE_AT_LENGTH=1 $(BUILD)/tests/integration/test_configure
	@ATTACKS_AT_LENGTH=1 $(BUILD)/tests/integration/test_attacks outside
	@ATTACKS_AT_LENGTH=1 $(BUILD)/tests/integration/test_attacks agent
	@ATTACKS_AT_LENGTH=1 $(BUILD)/tests/integration/test_attacks kernel
	@FROZEN_AT_LENGTH=1 $(BUILD)/tests/integration/test_frozen

test-frozen: all ## the daemon stopped for a minute, the home's disk frozen for 20 s: no sandbox ends
	@FROZEN_AT_LENGTH=1 $(BUILD)/tests/integration/test_frozen

test-compile-large: all ## what is compiled again after each kind of change to 500 modules, beside Mix
	@COMPILE_MODULES=500 $(BUILD)/tests/integration/test_compile_changes

test-packages: all ## compile Erlang projects that the distribution ships as sources
	@tools/test_packages.sh $(BUILD)

test-rebar3: all ## rebar3 projects as rebar3 itself describes them, beside `rebar3 compile` (needs rebar3)
	@command -v rebar3 >/dev/null || { echo "rebar3 is not installed: apt-get install rebar3"; exit 1; }
	@meson setup --reconfigure $(BUILD) . >/dev/null && ninja -C $(BUILD) --quiet
	@meson test -C $(BUILD) --no-rebuild --benchmark --verbose agent/rebar3

test-distros: ## the demo and every test on fresh roots of Debian 12, 13 and 14 (or SUITES)
	@tools/distros/test.sh $(SUITES)

test-toolchains: all ## tests that touch the VM with the OTP and Elixir of Debian 13 and 14 (or SUITES), all in one service too
	@tools/toolchains/test.sh $(BUILD) $(SUITES)

test-vm: ## the demo and a selection of tests on Debian 13 with its own kernel in QEMU, where cgroups are v2 only (takes minutes); CHECKS="limits freeze" for some
	@tools/vm/test.sh $(CHECKS)

cross-arm64: ## compile and link everything for arm64, in a root of its own, and run there what an emulator can
	@tools/cross/build.sh

fuzz: all ## each fuzz target under libFuzzer for SECONDS (60)
	@tools/fuzz.sh all $(or $(SECONDS),60)

docs: all ## make docs/reference.md and docs/attacks.md anew from the tables
	@$(BUILD)/tools/reference > docs/reference.md
	@$(BUILD)/tests/integration/test_attacks --markdown > docs/attacks.md

install: all ## install below PREFIX (/usr/local), DESTDIR honoured
	@meson install -C $(BUILD) --no-rebuild

deb: bootstrap ## a Debian package in $(BUILD)
	@tools/deb.sh $(BUILD)

bench: all ## everything beside what one would use instead, into docs/benchmarks.md (takes six minutes); ROWS="eval list" for some of it
	@tools/bench/comparison/bench.sh $(BUILD) $(or $(ROUNDS),20) $(ROWS)

bench-memory: all ## what an idle sandbox's memory is made of (takes a minute)
	@tools/bench/memory/bench_memory.sh $(BUILD)

cost: all ## write down anew how many instructions the hot paths take, which `make test` compares with
	@tests/cost/check.sh $(BUILD)/tests/cost/cost tests/fuzz/corpus --update
	@cat tests/cost/bounds

soak: all ## create, reload, crash and destroy at random for SECONDS (600); nothing may grow or be left behind
	@SOAK_SECONDS=$(or $(SECONDS),600) $(BUILD)/tests/integration/soak

bench-beam: all ## validating every BEAM file of OTP and Elixir, beside beam_lib (takes a minute)
	@tools/bench/beam/bench_beam.sh $(BUILD)

bench-watch: all ## from a save to the new code's answer, beside the alternatives (takes minutes)
	@tools/bench/watch/bench_watch.sh $(BUILD) $(or $(ROUNDS),200)

bench-compile: all ## how long compiling takes, beside the alternatives (takes minutes)
	@tools/bench/compile/bench_compile.sh $(BUILD) $(or $(ROUNDS),20)

compat: all ## compile and start the projects in DIR, and print a table; TOOLCHAINS names those to use
	@tools/compat.sh $(BUILD)/bin/sandbox $(DIR) $(TOOLCHAINS)

bench-reload: all ## how long changing running code takes, beside the same by hand (takes minutes)
	@tools/bench/reload/bench_reload.sh $(BUILD) $(or $(ROUNDS),100)

bench-limits: all ## each limit under attack: how long until it holds, what a neighbour notices (takes two minutes); LIMITS="cpu atoms" for some of them
	@tools/bench/limits/bench_limits.sh $(BUILD) $(or $(WINDOW_MS),2500) $(LIMITS)

bench-ports: all ## a small HTTP server through a published port, beside the same on the host (takes two minutes)
	@tools/bench/ports/bench_ports.sh $(BUILD) $(or $(WINDOW_MS),2000) $(or $(ROUNDS),5)

bench-siege: all ## a neighbour's info and eval while strangers attack the service, by turns with quiet (takes ten minutes); ATTACKS="bodies dials" for some families
	@tools/bench/siege/siege.sh $(BUILD) $(or $(WINDOW_MS),1000) $(or $(ROUNDS),4) $(ATTACKS)

format: ## format the C sources in place
	@git ls-files '*.c' '*.h' | xargs clang-format -i

clean: ## remove what was built
	@rm -rf $(BUILD) $(BUILD)-asan $(BUILD)-tsan $(BUILD)-analyse

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | awk -F'\t' '{ printf "  make %-18s %s\n", $$1, $$2 }'
