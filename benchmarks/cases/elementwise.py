"""Chains of elementwise operations over arrays of any layout."""

import numpy as np

from benchmarks.cases import DIV, EXP, LOG, SINCOS, SQRT, TANH, case, integers, normal, uniform, view


def chain(x, y, half):
    return np.sqrt(x * x + y * y) * half + x * y - y


def integer_chain(x, y):
    return (x * 3 + y) ^ (x >> 2) & y


def mixed_chain(x, y, n):
    return (x + y) * n - x


def sin_exp_tanh(x):
    return np.sin(x) * np.exp(x) + np.tanh(x)


def select(x, y):
    return np.where(x > y, np.minimum(x, 1.0), np.maximum(y, -1.0))


def normal_cdf(x):
    """Abramowitz and Stegun 26.2.17."""
    k = 1.0 / (1.0 + 0.2316419 * np.abs(x))
    poly = k * (0.319381530 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429))))
    tail = 0.3989422804014327 * np.exp(-0.5 * x * x) * poly
    return np.where(x >= 0, 1.0 - tail, tail)


def black_scholes(spot, strike, years, rate, sigma):
    root = sigma * np.sqrt(years)
    d1 = (np.log(spot / strike) + (rate + 0.5 * sigma * sigma) * years) / root
    discounted = strike * np.exp(-rate * years)
    call = spot * normal_cdf(d1) - discounted * normal_cdf(d1 - root)
    return call, call - spot + discounted


# fmt: off
# Coefficients of a density in powers of salinity, temperature and pressure, of the sizes that TEOS-10's have.
DENSITY = (
    ((8.0185969e2, -1.5649735e1, 2.7624126e1, -1.3262363e1, 3.6616284, -4.2e-1), (8.6672408e2, -5.5e-1, -1.8e-2, 3.1,
      -8e-1, 1e-1), (-1.7864682e3, -2.4e1, -9.2e-2, 1.4, 1.1e-1, 2e-2), (2.0375295e3, -6.8, 2.4, -4.4e-1, 7e-2, 1e-2),
     (-1.2849161e3, -5.5, 1.3, 3.2e-1, -6e-2, 3e-3), (4.3227585e2, 1.2, -2.9e-1, 4e-2, 5e-3, -7e-4)),
    ((2.6010145e1, -6.5281885e1, 8.1770425e1, -5.6888046e1, 1.7681814e1, -1.9193502), (-1.1e1, 2.3, -1.7, 5e-1, -1e-1, 8e-3),
     (6.2, -1.4, 8e-1, -2e-1, 3e-2, -2e-3), (-3.1, 9e-1, -3e-1, 8e-2, -9e-3, 4e-4), (1.4, -4e-1, 1e-1, -2e-2, 2e-3, -1e-4),
     (-5e-1, 1e-1, -3e-2, 5e-3, -6e-4, 2e-5)),
    ((-3.7e1, 6.2e1, -6.1e1, 3.8e1, -9.8, 1.2), (9.3, -2.1, 1.4, -4e-1, 9e-2, -7e-3), (-5.5, 1.2, -7e-1, 2e-1, -3e-2, 2e-3),
     (2.8, -8e-1, 2e-1, -7e-2, 8e-3, -3e-4), (-1.2, 3e-1, -9e-2, 1e-2, -1e-3, 9e-5), (4e-1, -9e-2, 2e-2, -4e-3, 5e-4, -1e-5)),
    ((1.4e1, -2.2e1, 2.1e1, -1.3e1, 3.4, -4e-1), (-3.2, 7e-1, -4e-1, 1e-1, -3e-2, 2e-3), (1.9, -4e-1, 2e-1, -6e-2, 9e-3, -6e-4),
     (-9e-1, 2e-1, -7e-2, 2e-2, -2e-3, 9e-5), (4e-1, -1e-1, 3e-2, -4e-3, 4e-4, -3e-5), (-1e-1, 3e-2, -7e-3, 1e-3, -1e-4, 4e-6)),
)
# fmt: on


def density(s, t, p):
    """A density and its derivative by pressure: 144 coefficients, each once in either."""
    root = np.sqrt(s)
    value = 0.0
    slope = 0.0
    for plane in DENSITY:
        inner = 0.0
        inner_slope = 0.0
        for row in plane:
            poly = 0.0
            poly_slope = 0.0
            for c in row:
                poly_slope = poly_slope * p + poly
                poly = poly * p + c
            inner = inner * t + poly
            inner_slope = inner_slope * t + poly_slope
        value = value * root + inner
        slope = slope * root + inner_slope
    return value, slope / value


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def lstm_gates(gates, c):
    n = c.shape[1]
    i, f, g, o = gates[:, :n], gates[:, n : 2 * n], gates[:, 2 * n : 3 * n], gates[:, 3 * n :]
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def grey(rgb):
    return (rgb[:, :, 0] * 0.299 + rgb[:, :, 1] * 0.587 + rgb[:, :, 2] * 0.114).astype(np.uint8)


def stretch(image):
    low = np.min(image)
    high = np.max(image)
    return ((image - low) * (255.0 / (high - low))).astype(np.uint8)


def transposed(x, y):
    return x.T * 2.0 + y


def products(x, y):
    return x * y + x


def join(x, y):
    return np.concatenate((x * 2.0, y + 1.0, x - 1.0), axis=1)


K, M = 1000, 1000 * 1000
CHAIN = "sqrt(x * x + y * y) * half + x * y - y"


def chains(dtype, short, quick):
    return [
        case(
            f"chain {short} {name}",
            "chain",
            normal(dtype, n),
            normal(dtype, n),
            np.dtype(dtype).type(0.5),
            ops=n * (SQRT + 4),
            quick=quick == name,
            numexpr=CHAIN,
        )
        for name, n in (("1k", K), ("100k", 100 * K), ("10M", 10 * M))
    ]


def options(n):
    return (
        uniform("float64", n, low=20, high=120),
        uniform("float64", n, low=20, high=120),
        uniform("float64", n, low=0.1, high=3),
        0.03,
        uniform("float64", n, low=0.1, high=0.6),
    )


CASES = [
    *chains("float32", "f32", "100k"),
    *chains("float64", "f64", None),
    *[
        case(f"chain i32 {name}", "integer_chain", integers("int32", n), integers("int32", n), ops=4 * n)
        for name, n in (("1k", K), ("100k", 100 * K), ("10M", 10 * M))
    ],
    *[
        case(
            f"chain f32+f64+i32 {name}",
            "mixed_chain",
            normal("float32", n),
            normal("float64", n),
            integers("int32", n),
            ops=6 * n,
            numexpr="(x + y) * n - x",
        )
        for name, n in (("1k", K), ("100k", 100 * K), ("10M", 10 * M))
    ],
    case("select f32 100k", "select", normal("float32", 100 * K), normal("float32", 100 * K), ops=4 * 100 * K),
    case("sin*exp+tanh f32 100k", "sin_exp_tanh", normal("float32", 100 * K), ops=100 * K * (SINCOS + EXP + TANH)),
    case(
        "sin*exp+tanh f64 100k",
        "sin_exp_tanh",
        normal("float64", 100 * K),
        ops=100 * K * (SINCOS + EXP + TANH),
        numexpr="sin(x) * exp(x) + tanh(x)",
    ),
    case("Black-Scholes f64 10k", "black_scholes", *options(10 * K), ops=10 * K * (LOG + 3 * EXP + 5 * DIV + SQRT + 30), tol=1e-9),
    case("Black-Scholes f64 1M", "black_scholes", *options(M), ops=M * (LOG + 3 * EXP + 5 * DIV + SQRT + 30), tol=1e-9),
    case("density (600 ops) f64 100k", "density", *[uniform("float64", 100 * K, low=0, high=1)] * 3, ops=100 * K * 600, tol=1e-9),
    case(
        "LSTM gates f32 64x512",
        "lstm_gates",
        normal("float32", 64, 2048),
        normal("float32", 64, 512),
        ops=64 * 512 * (3 * (EXP + DIV) + 2 * TANH),
    ),
    case("grey u8 1080x1920", "grey", integers("uint8", 1080, 1920, 3, high=256), ops=1080 * 1920 * 2, tol=1),
    case("stretch u8 1080x1920", "stretch", integers("uint8", 1080, 1920, low=20, high=200), ops=1080 * 1920, tol=1),
    case("transposed f32 1024x1024", "transposed", normal("float32", 1024, 1024), normal("float32", 1024, 1024)),
    case("transposed f32 256x256", "transposed", normal("float32", 256, 256), normal("float32", 256, 256)),
    case("transposed f64 2000x2000", "transposed", normal("float64", 2000, 2000), normal("float64", 2000, 2000)),
    case(
        "strided f32 100k",
        "products",
        view(normal("float32", 200 * K), slice(None, None, 2)),
        view(normal("float32", 300 * K), slice(1, None, 3)),
        numexpr="x * y + x",
    ),
    case(
        "reversed f32 100k",
        "products",
        view(normal("float32", 100 * K), slice(None, None, -1)),
        normal("float32", 100 * K),
        numexpr="x * y + x",
    ),
    case("join f32 1000x(100+200)", "join", normal("float32", 1000, 100), normal("float32", 1000, 200)),
]
