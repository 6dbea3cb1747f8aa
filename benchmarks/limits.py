"""What holds a case that is further than 1.25 from its roofline, as its assembly and measurements say (docs/performance.md has the story).

The first pattern that matches a case's name counts. A case without one is reported as not looked at.
"""

import fnmatch

LIMITS = (
    ("x + y f64 8", "the call"),
    ("chain f?? 1k", "the call, and the square root unit"),
    ("chain i32 1k", "the call"),
    ("chain f32+f64+i32 1k", "the call, and conversions between widths: two instructions per vector"),
    ("chain f32+f64+i32 100k", "conversions between widths; 2 MB, twice the second cache"),
    ("chain f64 100k", "the square root unit: 12,500 vectors at 2.0 ns are 25 of 27.6 us; x + y of this size takes 26"),
    ("chain i32 100k", "1.2 MB: a little more than the second cache holds"),
    ("select f32 100k", "1.2 MB: a little more than the second cache holds"),
    ("sum(x?x) f32 256x256", "the call, a tenth of it"),
    ("grey*", "32 vector instructions per 16 pixels, half of them conversions that NumPy's float64 result needs"),
    ("stretch*", "two passes; conversions from uint8 to float64 and back, which NumPy's result needs"),
    ("strided*", "shuffles: ten loads for two vectors of results"),
    ("transposed*", "tiles: each element is moved once more, through the first cache"),
    ("cumsum f64*", "the latency of an addition, two cycles: sums are made in order, as NumPy's"),
    ("cumsum rows*", "48 shuffles, two a cycle, turn 64 elements in and out, since each row is added up in order"),
    ("var f32 2048x2048", "two passes over blocks in the first cache: the mean first, as NumPy's"),
    ("*softmax f?? 65536x64", "a row is a chain of 170 cycles (two joins, exp, division), of which the machine holds two or three"),
    ("*softmax*", "exp: 27 cycles per vector of latencies and ports where its instructions would take 16"),
    ("sin?exp+tanh*", "latencies and ports of elementary functions, as softmax"),
    ("distances*", "the square root unit after 96 shuffles per 128 points, which take the coordinates apart anew for each point"),
    ("k-means*", "two additions per cycle"),
    ("var axis 0*", "24 subtractions, two a cycle, per half kilobyte of each row, beside the shared cache's latency"),
    ("layer norm*", "two passes over a row before the one that divides, each waits for its lanes to be joined; a copy is 0.6 of it"),
    ("* axis 0 *", "a kilobyte of each row at a time (variances half): the shared cache's latency, most at strides of a power of two"),
    ("argmax*", "the shared cache's bandwidth, by reads of 16 MB"),
    ("max axis 1*", "the shared cache's bandwidth, by reads of 16 MB"),
    ("var axis 1*", "two passes over each row, which is in the first cache"),
    ("mean*", "the shared cache's bandwidth, by reads of 16 MB"),
    ("sum axis 1*", "the second cache's bandwidth, a few lines of each row at a time"),
    ("std(x-y*", "memory: two streams down columns"),
    ("center columns*", "memory: two passes"),
    ("27 points*", "18 loads per vector, two of three across lines, one of these a cycle"),
    ("laplace*", "loads across lines, one a cycle; from memory its bandwidth"),
    ("sobel*", "18 loads for four vectors, two of three across lines"),
    ("blur*", "loads across lines, one a cycle, and memory"),
    ("heat*", "loads across lines, one a cycle, and the second cache's bandwidth: six cycles per vector"),
    ("wave*", "loads across lines, one a cycle; 137 launches"),
    ("10000 products*", "matrices of four rows fill a quarter of a vector"),
    ("attention*", "the products and the exponentials between them, in turns"),
    ("matmul f32 32", "the call"),
    ("* 1k", "the call, and one chain after the other of the function's instructions"),
    ("* 1M", "the function's instructions (--asm) at two to three a cycle"),
)


def named(name):
    """The limit of a case, or None."""
    return next((text for pattern, text in LIMITS if fnmatch.fnmatchcase(name, pattern)), None)
