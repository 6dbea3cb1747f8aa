"""What every test shares; the helpers that compare with NumPy are in checking.py."""
import os

os.environ.setdefault("PYXLA_CACHE_DIR", "")             # a test compiles what it tests
