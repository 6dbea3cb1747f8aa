"""np.fft: NumPy's bits, over lengths, axes, norms, dtypes and layouts, between fused operations."""
import numpy as np
import pytest
from checking import check, check_error, layouts, sample

import pyxla

ONE = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
MANY = ["fft2", "ifft2", "fftn", "ifftn", "rfft2", "irfft2", "rfftn", "irfftn"]
REAL_IN = {"rfft", "ihfft", "rfft2", "rfftn"}


def data(name, dtype="float64"):
    x = sample((3, 4, 7), dtype, 1)
    return x if name in REAL_IN or np.dtype(dtype).kind != "f" else (x + 1j * x[::-1]).astype(np.result_type(dtype, 1j))


@pytest.mark.parametrize("name", ONE)
@pytest.mark.parametrize("form", [{}, {"n": 5}, {"n": 12}, {"axis": 0}, {"axis": 1, "norm": "ortho"}, {"n": 6, "axis": -2, "norm": "forward"}, {"norm": "backward"}], ids=str)
def test_one_axis(name, form):
    check(lambda x: getattr(np.fft, name)(x, **form), data(name))


@pytest.mark.parametrize("name", MANY)
@pytest.mark.parametrize("form", [{}, {"axes": (0, 1)}, {"s": (5, 4), "axes": (1, 2)}, {"axes": (2, 0), "norm": "ortho"}, {"s": (-1, 9), "axes": (0, -1)}, {"norm": "forward"}, {"axes": (1,)}], ids=str)
def test_many_axes(name, form):
    check(lambda x: getattr(np.fft, name)(x, **form), data(name))


@pytest.mark.parametrize("name", ONE + MANY)
@pytest.mark.parametrize("dtype", ["float32", "int16", "bool", "uint64"])
def test_dtypes(name, dtype):
    check(getattr(np.fft, name), data(name, dtype))


@pytest.mark.parametrize("name", ["fft", "irfft", "rfftn"])
@pytest.mark.parametrize("layout", ["c", "strided", "reversed", "fortran", "unaligned", "byte-swapped"])
def test_layouts(name, layout):
    check(lambda x: getattr(np.fft, name)(x, axis=0) if name != "rfftn" else np.fft.rfftn(x.T), dict(layouts(sample((6, 5), "float64", 2)))[layout])


@pytest.mark.parametrize("f", [
    lambda x: np.fft.fftshift(x), lambda x: np.fft.ifftshift(x, axes=1), lambda x: np.fft.fftshift(x, (0, 2)), lambda x: x * np.fft.fftfreq(7, 0.1), lambda x: x[..., :4] * np.fft.rfftfreq(7),
    lambda x: np.fft.irfft(np.fft.rfft(x, axis=1), axis=1), lambda x: np.fft.irfftn(np.fft.rfftn(x * 2), s=(3, 4, 7), axes=(0, 1, 2)) + 1,
])
def test_round(f):
    check(f, sample((3, 4, 7), "float64", 3))


def test_frequencies_of_a_traced_spacing():
    check(lambda x, d: x * np.fft.fftfreq(6, d), sample(6, "float64", 4), 0.25, rtol=1e-15)


def test_between_fused_operations():
    def smooth(x, keep):
        f = np.fft.rfft(x - x.mean())
        return np.fft.irfft(f, n=x.size)[:keep] * 2 + 1

    jitted = check(lambda x: smooth(x, 5), sample(64, "float64", 5), rtol=1e-14)
    assert jitted.lower(sample(64, "float64", 5)).compile().as_text().count("host function") == 2


@pytest.mark.parametrize("f", [
    lambda x: abs(np.fft.rfft(x)) ** 2, lambda x: np.fft.ifft(np.fft.fft(x) * 2).real, lambda x: np.fft.irfft(np.fft.rfft(x, 16) * np.conj(np.fft.rfft(x[::-1], 16))), lambda x: np.angle(np.fft.fftshift(np.fft.fft(x))),
    lambda x: np.fft.fft(x * np.exp(2j * np.pi * x))[:4].sum(), lambda x: np.fft.ifft2(np.fft.fft2(x.reshape(2, 4)) * 1j).imag,
])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_complex_operations_between_transforms(f, dtype):
    check(f, sample(8, dtype, 8), rtol=1e-5 if dtype == "float32" else 1e-13, signs=False)


def test_into_an_array():
    def f(x, out):
        np.fft.irfft(np.fft.rfft(x), n=8, out=out)
        x[...] = 0

    check(f, sample(8, "float64", 6), np.zeros(8))


@pytest.mark.parametrize("f", [
    lambda x: np.fft.fft(x, 0), lambda x: np.fft.fft(x, axis=3), lambda x: np.fft.rfft(x, norm="nonsense"), lambda x: np.fft.fft2(x, s=(1,), axes=(0, 1)), lambda x: np.fft.irfft(x[:, :1]),
    lambda x: np.fft.fftn(x, axes=(5,)), lambda x: np.fft.rfftn(x, axes=()),
])
def test_errors(f):
    check_error(f, sample((4, 6), "float64", 7))


def test_real_transforms_of_complex_numbers():
    with pytest.raises(TypeError):
        pyxla.jit(np.fft.rfft)(np.ones(4) * 1j)
