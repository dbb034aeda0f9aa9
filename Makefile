# SPDX-License-Identifier: Apache-2.0
# The commands a person types. What each does stands in tools/; meson.build says how to compile.
MAKEFLAGS += --no-print-directory

all:        ## build everything, and install it into .venv (the default)
	@tools/build.sh
demo:       ## train four ranks on handwritten digits, 8 to 20 s once built; result in build/demo/
	@tools/demo.sh
check:      ## every fast test; those in C with ASan and UBSan
	@tools/check.sh check $(ARGS)
check-all:  ## every slow test: sanitized ranks, PyTorch 2, simulated hosts, the demo
	@tools/check.sh check-all $(ARGS)
soak:       ## random operations, fuzzing, changed tests 20 times, for an hour (ARGS=8h)
	@tools/check.sh soak $(ARGS)
check-gpu:  ## on a machine with a GPU: every operation there against the host's results
	@tools/gpu.sh check $(ARGS)
fresh:      ## the README's commands in a Debian with nothing but git and make (ARGS='make demo')
	@tools/fresh.sh $(if $(ARGS),'$(ARGS)')
bench:      ## measure against Open MPI, gloo and Horovod; writes docs/benchmarks.md (ARGS=--quick)
	@tools/bench.sh $(ARGS)
install:    ## make install PREFIX=/usr/local [DESTDIR=]
	@PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' PYTHONDIR='$(PYTHONDIR)' tools/install.sh
uninstall:  ## make uninstall PREFIX=/usr/local: remove what make install put there
	@PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' tools/install.sh --uninstall
deb:        ## build/dist/*.deb, a package for this Debian or Ubuntu
	@REIGEN_PROJECT_URL='$(URL)' tools/deb.sh
wheel:      ## build/dist/*.whl, for every Python 3.8 and later (URL=the project's address)
	@REIGEN_PROJECT_URL='$(URL)' tools/wheel.sh $(ARGS)
site:       ## build/site/html: README.md and docs/ as a site with search (fetches MkDocs)
	@tools/site.sh
chart:      ## build/dist/reigen-*.tgz, the Helm chart of deploy/chart (needs helm)
	@tools/chart.sh
agents:     ## build/agents/: the agent for hosts of the other architecture
	@tools/agents.sh
clean:      ## remove build/, build-*/ and .venv/
	@rm -rf build build-*/ .venv
help:       ## print this
	@awk -F ': *## ' '/^[a-z-]+: *## / { printf "  make %-13s%s\n", $$1, $$2 }' Makefile

.PHONY: all demo check check-all soak check-gpu fresh bench install uninstall deb wheel site chart agents clean help
