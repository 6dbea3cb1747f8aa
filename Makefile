# Every target sets up what it needs: LLVM's development package, a virtual environment in .venv, the built extension.
PYTHON ?= python3
PY := .venv/bin/python
MAKEFLAGS += --no-print-directory
export PYTHON

help:            ## this list
	@grep -E '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/: .*## /\t/' | expand -t 14

setup:
	@.ci/setup requirements-test.txt

build: setup     ## the extension, in place
	@$(PY) setup.py -q build_ext --inplace

demo:            ## trains and shows a classifier of handwritten digits
	@.ci/setup requirements-demo.txt
	@$(PY) setup.py -q build_ext --inplace
	@PYTHONPATH=. $(PY) examples/digits.py

test: build      ## the test suite
	@$(PY) -m pytest -q tests

test-slow: build ## exhaustive accuracy and long fuzzing as well
	@$(PY) -m pytest -q tests -m "slow or not slow"

bench: build     ## the benchmarks beside their peers (ARGS="--quick", "--case NAME --asm", ...)
	@.ci/setup-bench
	@PYTHONPATH=. .bench/venv/bin/python -m benchmarks.run $(ARGS)

lint:            ## ruff, and the lints of the C sources, clang's warnings among them
	@WITH_CLANG=1 .ci/setup requirements-test.txt
	@$(PY) -m ruff check .
	@$(PY) -m pytest -q tests/test_layers.py -k "not exported" --no-header -p no:cacheprovider
	@CC=$$(.ci/clang) PYXLA_SYNTAX=1 $(PY) setup.py -q build_ext

# A sanitized build lives in build/<name>; Python itself is not instrumented, hence the preload. Tests that build programs of their
# own are left out (test_c.py sanitizes its programs always). Run from that folder: processes that tests start find this build, too.
OWN_PROGRAMS := $(patsubst %,--ignore=$(CURDIR)/tests/test_%.py,c eval plan gen math layers)

asan: setup      ## the test suite under AddressSanitizer and UBSan (ARGS="-k ...")
	@PYXLA_DEBUG=1 PYXLA_SANITIZE=address,undefined $(PY) setup.py -q build --build-base build/asan --build-lib build/asan/lib
	@cd build/asan && ASAN_OPTIONS=detect_leaks=0:handle_segv=0 LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libstdc++.so.6)" \
		PYTHONPATH=$(CURDIR)/build/asan/lib $(CURDIR)/.venv/bin/pytest -q $(CURDIR)/tests $(OWN_PROGRAMS) -p no:cacheprovider $(ARGS)

tsan: setup      ## the tests of threads under ThreadSanitizer
	@PYXLA_DEBUG=1 PYXLA_SANITIZE=thread $(PY) setup.py -q build --build-base build/tsan --build-lib build/tsan/lib
	@cd build/tsan && TSAN_OPTIONS=die_after_fork=0:report_signal_unsafe=0:ignore_noninstrumented_modules=1:exitcode=66 \
		LD_PRELOAD="$$(gcc -print-file-name=libtsan.so)" PYTHONPATH=$(CURDIR)/build/tsan/lib \
		$(CURDIR)/.venv/bin/pytest -q $(CURDIR)/tests $(OWN_PROGRAMS) -k thread -p no:cacheprovider $(ARGS)

wheel:           ## a wheel with LLVM inside, tried in an empty environment
	@WITH_STATIC=1 .ci/setup requirements-test.txt
	@rm -rf dist
	@PYXLA_LLVM=static $(PY) -m pip wheel -q --disable-pip-version-check --no-deps -w dist .
	@.ci/check-wheel

clean:           ## removes what was built
	rm -rf build dist *.egg-info pyxla/*.so .pytest_cache .ruff_cache

.PHONY: help setup build demo test test-slow bench lint asan tsan wheel clean
.DEFAULT_GOAL := help
