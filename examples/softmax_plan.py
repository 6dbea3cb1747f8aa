"""Shows what a softmax becomes: the graph that the trace wrote down, the one kernel it is fused into, and that kernel's code.

The kernel has three loops over a row: its maximum; the exponentials, kept in a row of scratch, and their sum; the quotients.
The row comes from memory once, in the second loop it is in a cache. Nothing of the input's size is written but the result.
"""
import numpy as np

import pyxla


@pyxla.jit
def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def main(rows=512, columns=1000):
    x = pyxla.ShapeDtype((rows, columns), "float32")         # no data is needed to look at the plan
    lowered = softmax.lower(x)
    print("---- the graph, as traced\n", lowered.as_text(), sep="")
    compiled = lowered.compile()
    print("---- the plan\n", compiled.plan, sep="")

    loops = compiled.kernels[0].count("for a1 ") - compiled.kernels[0].count("for a1 blocks")      # (the row at once, or block by block)
    print(f"---- {compiled.launches} launch; {loops} loops over the row; buffers:")
    for kind, dtype, size in compiled.buffers:
        print(f"     {kind:10} {dtype:8} {size:8} bytes")
    print(f"     temporaries {compiled.workspace_bytes} bytes, peak {compiled.peak_bytes} bytes")
    print(f"     {len(compiled.llvm_ir.splitlines())} lines of LLVM IR (.llvm_ir), "
          f"{len(compiled.assembly.splitlines())} lines of assembly (.assembly)")

    data = np.random.default_rng(0).normal(size=(rows, columns)).astype("float32")
    error = np.abs(softmax(data) / softmax.__wrapped__(data) - 1).max()
    print(f"---- relative difference from NumPy: at most {error:.1e}")
    if error > 1e-5:
        raise SystemExit("the results do not agree")


if __name__ == "__main__":
    main()
