"""`np.einsum`: operands are joined pairwise, in the order of NumPy's path, each pair as a product of matrices or of elements."""
import numpy as np

from .. import _core
from ._args import ALL, BOOL, array, count, dtype_of, is_array, loop_dtype, result_type, scalar, to_out
from .extents import Number, is_dynamic, known_same, meets, with_extent
from .linalg import contract, sum_of_products
from .manip import diagonal_view

implements = _core.implements


@implements(np.einsum)
def einsum(*operands, out=None, optimize=False, dtype=None, order="K", casting="safe"):
    terms, result, operands = einsum_terms(operands)
    dtype = dtype_of(dtype) if dtype is not None else result_type(*[x.dtype for x in operands])
    dtype = loop_dtype(dtype) if optimize and len(operands) > 1 else dtype      # NumPy multiplies matrices then
    for x in operands:
        if not np.can_cast(x.dtype, dtype, casting):
            raise TypeError(f"Iterator operand 0 dtype could not be cast from {x.dtype!r} to {dtype!r} according to the rule '{casting}'")
    operands = [array(x, dtype) for x in operands]
    check_extents(terms, operands)
    work = [einsum_diagonal(x, t) for x, t in zip(operands, terms)]
    for at in einsum_order(terms, result, operands, optimize):
        (b, tb), (a, ta) = work.pop(at[1]), work.pop(at[0])
        needed = set(result).union(*[t for _, t in work])
        work.append(einsum_pair(a, ta, b, tb, needed))
    x, t = einsum_keep(*work[0], set(result))
    x = _core.copy(x) if len(operands) > 1 and x.ndim > 1 else x
    for operand in operands:                            # NumPy orders the axes as theirs
        x = _core.follow(x, operand)
    x = _core.transpose(x, tuple(t.index(c) for c in result)) if t != result else x
    if x.ndim == 0 and out is None and optimize and numpy_gives_array(terms, operands, optimize):
        out = ...
    return to_out(scalar(x), out, "unsafe" if casting == "unsafe" else "same_kind")


def parts_of(terms, operands):
    """NumPy's form of einsum's arguments in which labels are numbers; the number of each label."""
    number = {c: k for k, c in enumerate(sorted({c for t in terms for c in t}))}
    return [v for x, t in zip(operands, terms) for v in (x, [number[c] for c in t])], number


def numpy_gives_array(terms, operands, optimize):
    """Whether NumPy gives a sum over all labels as an array without axes, as after a product of matrices: asked of small operands."""
    small = [np.zeros([2 if isinstance(n, Number) else min(n, 2) for n in x.shape], x.dtype) for x in operands]
    return isinstance(np.einsum(*parts_of(terms, small)[0], [], optimize=optimize), np.ndarray)


def einsum_order(terms, result, operands, optimize):
    """Pairs of positions to join, lower one first; each result goes to the end."""
    n = len(operands)
    if not optimize and n > 2 and not any(is_dynamic(x) for x in operands):
        optimize = "greedy"                             # NumPy adds up all operands' products at once, then
    if n < 3 or optimize is False or optimize is None:
        return [(0, 1)] + [(0, n - k - 1) for k in range(1, n - 1)] if n > 1 else []
    parts, number = parts_of(terms, [hollow(x) for x in operands])
    path = np.einsum_path(*parts, [number[c] for c in result], optimize=optimize)[0][1:]
    order, size = [], n
    for step in path:
        step = sorted(step)
        for k in range(len(step) - 1):
            order.append((step[0], step[1]) if k == 0 else (step[k + 1] - k - 1, size - 1))
            size -= 1
        if len(step) == 1:
            raise ValueError("einsum: a step of the path names one operand")
    return order


def hollow(x):
    """An array of x's shape and dtype for functions that ask for nothing else; it has one element."""
    return np.ndarray(x.shape, x.dtype, bytes(x.dtype.itemsize), strides=(0,) * x.ndim)


@implements(np.einsum_path)
def einsum_path(*operands, optimize="greedy", einsum_call=False):
    return np.einsum_path(*[hollow(array(x)) if is_array(x) or isinstance(x, np.ndarray) else x for x in operands], optimize=optimize)


def einsum_terms(operands):
    """Labels per operand, labels of the result, operands as arrays: every form of einsum's arguments, `...` spelled out."""
    if isinstance(operands[0], str):
        text, operands = operands[0].replace(" ", ""), [array(x) for x in operands[1:]]
    else:
        names = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
        spell = lambda subs: "".join("..." if s is Ellipsis else names[s] for s in subs)  # noqa: E731
        pairs = list(zip(operands[::2], operands[1::2]))
        text = ",".join(spell(subs) for _, subs in pairs) + ("->" + spell(operands[-1]) if len(operands) % 2 else "")
        operands = [array(x) for x, _ in pairs]
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        raise ValueError("more operands provided to einstein sum function than specified in the subscripts string"
                         if len(terms) < len(operands) else
                         "fewer operands provided to einstein sum function than specified in the subscripts string")
    widest = max((x.ndim - len(t.replace("...", "")) for x, t in zip(operands, terms) if "..." in t), default=0)
    dots = [f"<{i}>" for i in range(widest)]
    spelled = [einsum_labels(t, dots, x.ndim) for t, x in zip(terms, operands)]
    if arrow:
        result = einsum_labels(right, dots, None)
    else:
        letters = [c for t in spelled for c in t if c[0] != "<"]
        result = dots + sorted(c for c in set(letters) if letters.count(c) == 1)
    known = {c for t in spelled for c in t}
    for c in result:
        if c not in known:
            raise ValueError(f"einstein sum subscripts string included output subscript '{c}' which never appeared in an input")
        if result.count(c) > 1:
            raise ValueError(f"einstein sum subscripts string includes output subscript '{c}' multiple times")
    return spelled, result, operands


def einsum_labels(term, dots, rank):
    """The labels of a term, one per axis; an ellipsis takes the last of `dots` (right-aligned)."""
    head, ellipsis, tail = term.partition("...")
    if not all(c.isalpha() for c in head + tail):
        raise ValueError(f"invalid subscript in einstein sum subscripts string: {term!r}")
    if not ellipsis:
        if rank is not None and len(head) != rank:
            raise ValueError("operand has more dimensions than subscripts given in einstein sum, but no '...' ellipsis provided "
                             "to broadcast the extra dimensions." if rank > len(head) else
                             "einstein sum subscripts string contains too many subscripts for operand")
        return list(head)
    n = len(dots) if rank is None else rank - len(head) - len(tail)
    if n < 0:
        raise ValueError("einstein sum subscripts string contains too many subscripts for operand")
    return list(head) + dots[len(dots) - n:] + list(tail)


def check_extents(terms, operands):
    """Extents of one label agree, or are 1."""
    extent = {}
    for t, x in zip(terms, operands):
        for c, n in zip(t, x.shape):
            if _core.is_extent(n) or _core.is_extent(extent.get(c)):    # of the run: what meets is compared where it meets
                extent[c] = n if _core.is_extent(n) else extent[c]
                continue
            if extent.get(c, 1) not in (1, n) and n != 1:
                raise ValueError(f"operands could not be broadcast together: label '{c}' has extents {extent[c]} and {n}")
            extent[c] = max(extent.get(c, 1), n) if n != 0 and extent.get(c, 1) != 0 else 0


def einsum_diagonal(x, term):
    """x with each repeated label reduced to its diagonal, and the labels left."""
    term = list(term)
    for c in dict.fromkeys(term):
        while term.count(c) > 1:
            i = term.index(c)
            j = term.index(c, i + 1)
            if x.shape[i] != x.shape[j]:
                raise ValueError(f"dimensions in single operand for collapsing index '{c}' don't match "
                                 f"({x.shape[i]} != {x.shape[j]})")
            x = diagonal_view(x, 0, i, j, readonly=False)
            term = [t for k, t in enumerate(term) if k not in (i, j)] + [c]
    return x, term


def einsum_keep(x, term, needed):
    """x summed over the labels that nothing else needs."""
    axes = tuple(k for k, c in enumerate(term) if c not in needed)
    if axes:
        x = _core.reduce("any" if x.dtype == BOOL else "sum", x, axes)
    return x, [c for c in term if c in needed]


def einsum_pair(a, ta, b, tb, needed):
    """The product of two operands, summed over the labels that only they have."""
    a, ta = einsum_keep(a, ta, needed | set(tb))
    b, tb = einsum_keep(b, tb, needed | set(ta))
    a, ta, b, tb = stretch(a, ta, b, tb, needed)
    both = [c for c in ta if c in tb]
    batch, inner = [c for c in both if c in needed], [c for c in both if c not in needed]
    m, n = [c for c in ta if c not in tb], [c for c in tb if c not in ta]
    extent = dict(zip(tb, b.shape)) | dict(zip(ta, a.shape))
    if inner and n and _core.windowed(a):
        return window_product(a, ta, b, tb, batch, m, n, inner, extent)
    if inner and m and _core.windowed(b):
        return window_product(b, tb, a, ta, batch, n, m, inner, extent)
    elements = not m and not n or _core.windowed(a) or _core.windowed(b)
    if not inner or elements:                           # a product by elements, then a sum
        labels = batch + m + n + inner
        a, b = (_core.reshape(_core.transpose(x, tuple(t.index(c) for c in labels if c in t)),
                              tuple(extent[c] if c in t else 1 for c in labels)) for x, t in ((a, ta), (b, tb)))
        first = len(labels) - len(inner)
        return sum_of_products(a, b, tuple(range(first, len(labels)))), labels[:first]
    size = lambda labels: count(extent[c] for c in labels)  # noqa: E731
    a = _core.transpose(a, tuple(ta.index(c) for c in batch + m + inner))
    b = _core.transpose(b, tuple(tb.index(c) for c in batch + inner + n))
    lead = (size(batch),) if batch else ()
    c = contract(_core.reshape(a, (*lead, size(m), size(inner))), _core.reshape(b, (*lead, size(inner), size(n))))
    return _core.reshape(c, tuple(extent[x] for x in batch + m + n)), batch + m + n


def window_product(a, ta, b, tb, batch, m, n, inner, extent):
    """A product with windows a, which cannot be reshaped: one axis of rows, one that is summed in the product, the others around it."""
    k = max(inner, key=lambda c: extent[c])
    around, rows = [c for c in inner if c != k], m[-1:]
    lead = around + batch + m[:-1]
    a = _core.transpose(a, tuple(ta.index(c) for c in lead + rows + [k]))
    b = _core.transpose(b, tuple(tb.index(c) for c in lead + [k] + n if c in tb))
    shape = tuple(extent[c] if c in tb else 1 for c in lead)
    b = _core.reshape(b, (*shape, extent[k], count(extent[c] for c in n)))
    if not rows:
        a = _core.reshape(a, (*a.shape[:-1], 1, a.shape[-1]))
    c = contract(a, b)
    if around:
        c = _core.reduce("any" if c.dtype == BOOL else "sum", c, tuple(range(len(around))))
    labels = batch + m + n
    return _core.reshape(c, tuple(extent[x] for x in labels)), labels


def met(a, i, b, j):
    """Operands that share a label at these axes, of extents that the run may only know: equal there, which it checks."""
    if known_same(a.shape[i], b.shape[j]):
        return a, b
    meets(a.shape[i], b.shape[j], "extent")
    if isinstance(a.shape[i], Number):
        return with_extent(a, i, b.shape[j]), b
    return a, with_extent(b, j, a.shape[i])


def stretch(a, ta, b, tb, needed):
    """A shared label of extent 1 in one operand only: that axis is dropped there (it broadcasts)."""
    for c in [c for c in ta if c in tb]:
        i, j = ta.index(c), tb.index(c)
        if is_dynamic(a) or is_dynamic(b):
            a, b = met(a, i, b, j)
        elif a.shape[i] == 1 and b.shape[j] != 1:
            a, ta = a[(ALL,) * i + (0, ...)], ta[:i] + ta[i + 1:]
        elif b.shape[j] == 1 and a.shape[i] != 1:
            b, tb = b[(ALL,) * j + (0, ...)], tb[:j] + tb[j + 1:]
    (a, ta), (b, tb) = einsum_keep(a, ta, needed | set(tb)), einsum_keep(b, tb, needed | set(ta))
    return a, ta, b, tb
