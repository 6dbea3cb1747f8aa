"""Fixtures; the helpers themselves are in checking.py."""
import os

import pytest

os.environ.setdefault("PYXLA_CACHE_DIR", "")             # a test compiles what it tests

from checking import check, check_error, same  # noqa: F401


@pytest.fixture
def rng():
    import numpy as np

    return np.random.default_rng(0)
