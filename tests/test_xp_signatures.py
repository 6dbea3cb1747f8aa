"""The signatures of the array API standard (2024.12, and what 2025.12 adds): every call that it allows is one that pyxla.xp takes, with the standard's defaults."""
import inspect

import numpy as np
import pytest
from checking import OLD

from pyxla import xp

MAIN = """
abs(x,/) acos(x,/) acosh(x,/) add(x1,x2,/) asin(x,/) asinh(x,/) atan(x,/) atan2(x1,x2,/) atanh(x,/) bitwise_and(x1,x2,/) bitwise_left_shift(x1,x2,/)
bitwise_invert(x,/) bitwise_or(x1,x2,/) bitwise_right_shift(x1,x2,/) bitwise_xor(x1,x2,/) ceil(x,/) clip(x,/,min=None,max=None) conj(x,/)
copysign(x1,x2,/) cos(x,/) cosh(x,/) divide(x1,x2,/) equal(x1,x2,/) exp(x,/) expm1(x,/) floor(x,/) floor_divide(x1,x2,/) greater(x1,x2,/)
greater_equal(x1,x2,/) hypot(x1,x2,/) imag(x,/) isfinite(x,/) isinf(x,/) isnan(x,/) less(x1,x2,/) less_equal(x1,x2,/) log(x,/) log1p(x,/) log2(x,/)
log10(x,/) logaddexp(x1,x2,/) logical_and(x1,x2,/) logical_not(x,/) logical_or(x1,x2,/) logical_xor(x1,x2,/) maximum(x1,x2,/) minimum(x1,x2,/)
multiply(x1,x2,/) negative(x,/) nextafter(x1,x2,/) not_equal(x1,x2,/) positive(x,/) pow(x1,x2,/) real(x,/) reciprocal(x,/) remainder(x1,x2,/)
round(x,/) sign(x,/) signbit(x,/) sin(x,/) sinh(x,/) square(x,/) sqrt(x,/) subtract(x1,x2,/) tan(x,/) tanh(x,/) trunc(x,/)
arange(start,/,stop=None,step=1,*,dtype=None,device=None) asarray(obj,/,*,dtype=None,device=None,copy=None) empty(shape,*,dtype=None,device=None)
empty_like(x,/,*,dtype=None,device=None) eye(n_rows,n_cols=None,/,*,k=0,dtype=None,device=None) from_dlpack(x,/,*,device=None,copy=None)
full(shape,fill_value,*,dtype=None,device=None) full_like(x,/,fill_value,*,dtype=None,device=None)
linspace(start,stop,/,num,*,dtype=None,device=None,endpoint=True) meshgrid(*arrays,indexing='xy') ones(shape,*,dtype=None,device=None)
ones_like(x,/,*,dtype=None,device=None) tril(x,/,*,k=0) triu(x,/,*,k=0) zeros(shape,*,dtype=None,device=None) zeros_like(x,/,*,dtype=None,device=None)
astype(x,dtype,/,*,copy=True,device=None) broadcast_arrays(*arrays) broadcast_to(x,/,shape) can_cast(from_,to,/) finfo(type,/) iinfo(type,/)
isdtype(dtype,kind) result_type(*arrays_and_dtypes) broadcast_shapes(*shapes) take(x,indices,/,*,axis=None) take_along_axis(x,indices,/,*,axis=-1)
matmul(x1,x2,/) matrix_transpose(x,/) tensordot(x1,x2,/,*,axes=2) vecdot(x1,x2,/,*,axis=-1) concat(arrays,/,*,axis=0) expand_dims(x,/,*,axis=0)
flip(x,/,*,axis=None) moveaxis(x,source,destination,/) permute_dims(x,/,axes) repeat(x,repeats,/,*,axis=None) reshape(x,/,shape,*,copy=None)
roll(x,/,shift,*,axis=None) squeeze(x,/,axis) stack(arrays,/,*,axis=0) tile(x,repetitions,/) unstack(x,/,*,axis=0)
argmax(x,/,*,axis=None,keepdims=False) argmin(x,/,*,axis=None,keepdims=False) count_nonzero(x,/,*,axis=None,keepdims=False) nonzero(x,/)
searchsorted(x1,x2,/,*,side='left',sorter=None) where(condition,x1,x2,/) unique_all(x,/) unique_counts(x,/) unique_inverse(x,/) unique_values(x,/)
isin(x1,x2,/,*,invert=False) argsort(x,/,*,axis=-1,descending=False,stable=True) sort(x,/,*,axis=-1,descending=False,stable=True)
cumulative_prod(x,/,*,axis=None,dtype=None,include_initial=False) cumulative_sum(x,/,*,axis=None,dtype=None,include_initial=False)
max(x,/,*,axis=None,keepdims=False) mean(x,/,*,axis=None,keepdims=False) min(x,/,*,axis=None,keepdims=False)
prod(x,/,*,axis=None,dtype=None,keepdims=False) std(x,/,*,axis=None,correction=0.0,keepdims=False) sum(x,/,*,axis=None,dtype=None,keepdims=False)
var(x,/,*,axis=None,correction=0.0,keepdims=False) all(x,/,*,axis=None,keepdims=False) any(x,/,*,axis=None,keepdims=False)
diff(x,/,*,axis=-1,n=1,prepend=None,append=None) __array_namespace_info__()
"""
LINALG = """
cholesky(x,/,*,upper=False) cross(x1,x2,/,*,axis=-1) det(x,/) diagonal(x,/,*,offset=0) eigh(x,/) eigvalsh(x,/) inv(x,/) matmul(x1,x2,/)
matrix_norm(x,/,*,keepdims=False,ord='fro') matrix_power(x,n,/) matrix_rank(x,/,*,rtol=None) matrix_transpose(x,/) outer(x1,x2,/)
pinv(x,/,*,rtol=None) qr(x,/,*,mode='reduced') slogdet(x,/) solve(x1,x2,/) svd(x,/,*,full_matrices=True) svdvals(x,/) tensordot(x1,x2,/,*,axes=2)
trace(x,/,*,offset=0,dtype=None) vecdot(x1,x2,/,*,axis=-1) vector_norm(x,/,*,axis=None,keepdims=False,ord=2) eig(x,/) eigvals(x,/)
"""
FFT = """
fft(x,/,*,n=None,axis=-1,norm='backward') ifft(x,/,*,n=None,axis=-1,norm='backward') fftn(x,/,*,s=None,axes=None,norm='backward')
ifftn(x,/,*,s=None,axes=None,norm='backward') rfft(x,/,*,n=None,axis=-1,norm='backward') irfft(x,/,*,n=None,axis=-1,norm='backward')
rfftn(x,/,*,s=None,axes=None,norm='backward') irfftn(x,/,*,s=None,axes=None,norm='backward') hfft(x,/,*,n=None,axis=-1,norm='backward')
ihfft(x,/,*,n=None,axis=-1,norm='backward') fftfreq(n,/,*,d=1.0,dtype=None,device=None) rfftfreq(n,/,*,d=1.0,dtype=None,device=None)
fftshift(x,/,*,axes=None) ifftshift(x,/,*,axes=None)
"""
CASES = [(prefix, item) for prefix, text in (("", MAIN), ("linalg", LINALG), ("fft", FFT)) for item in text.split()]
# How NumPy says the default otherwise: by nothing, or None for "backward", float for the dtype None of eye, nothing for the last axis of vecdot.
SAME = [None, np._NoValue]
OTHER = {"axis": [np._NoValue], "norm": [None], "rtol": SAME, "keepdims": SAME, "dtype": [float], "k": SAME}


def parameters(text):
    """Those of a signature in the standard's own words."""
    space = {}
    exec(f"def f{text}: pass", space)
    return list(inspect.signature(space["f"]).parameters.values())


@pytest.mark.parametrize(("prefix", "item"), CASES, ids=[f"{p}.{i.split('(')[0]}".strip(".") for p, i in CASES])
def test_signature(prefix, item):
    name, _, rest = item.partition("(")
    f = getattr(getattr(xp, prefix) if prefix else xp, name)
    if OLD and not inspect.isfunction(f):
        pytest.skip("what NumPy has in C has no signature before 2.3")
    mine = inspect.signature(f).parameters
    places = [p for p in mine.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    for k, p in enumerate(parameters("(" + rest)):
        if p.kind == p.VAR_POSITIONAL:
            assert any(q.kind == q.VAR_POSITIONAL for q in mine.values())
            continue
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
            q = places[k]
        if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD):
            q = mine[p.name]
            assert q.kind in (q.KEYWORD_ONLY, q.POSITIONAL_OR_KEYWORD)
        if p.default is not p.empty:
            assert q.default == p.default or q.default in OTHER.get(p.name, []), p
