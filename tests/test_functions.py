"""NumPy's functions and methods, each in the forms that people write, against NumPy."""
import numpy as np
import pytest
from checking import FLOATS, OLD, check, check_error, clone, layouts, sample

X = sample((3, 4), "float64", 1)
Y = sample((3, 4), "float64", 2)
F = sample((3, 4), "float32", 3)
I = sample((3, 4), "int32", 4)
B = sample((3, 4), "bool", 5)
V = sample(5, "float64", 6)
W = sample(4, "float64", 7)
C = sample((2, 3, 4), "float64", 8)
Z = np.array(2.5)
S = np.float64(2.5)
U = sample((4, 3), "uint8", 9)
N = np.array([[1.0, np.nan, 3.0, np.inf], [np.nan, np.nan, -2.0, 5.0], [0.0, -np.inf, 1.0, np.nan]])
E0 = np.zeros((0, 3))
SQ = sample((4, 4), "float64", 10)

# One line each: a function of the arrays named by its parameters.
SHAPE = [
    lambda X: np.reshape(X, (2, 6)), lambda X: np.reshape(X, -1), lambda X: np.reshape(X, (4, -1), order="F"), lambda C: C.reshape(4, -1),
    lambda C: C.reshape((2, 12)), lambda X: X.reshape(6, 2, order="F"), lambda X: X.reshape(3, 4, copy=True), lambda Z: Z.reshape(1, 1),
    lambda E0: E0.reshape(3, 0), lambda X: np.ravel(X), lambda X: X.ravel("F"), lambda X: X.flatten(), lambda X: X.flatten("F"),
    lambda X: X.T, lambda C: np.transpose(C), lambda C: np.transpose(C, (1, 2, 0)), lambda C: C.transpose(2, 0, 1), lambda C: C.transpose((0, -1, 1)),
    lambda C: C.transpose(None), lambda C: C.transpose(), lambda C: np.permute_dims(C, (1, 0, 2)), lambda C: np.matrix_transpose(C),
    lambda C: np.swapaxes(C, 0, -1), lambda C: C.swapaxes(1, 2), lambda C: np.moveaxis(C, 0, -1), lambda C: np.moveaxis(C, [0, 1], [-1, -2]),
    lambda C: np.rollaxis(C, 2), lambda C: np.rollaxis(C, 0, 3), lambda C: np.rollaxis(C, 1, -1), lambda X: np.expand_dims(X, 1),
    lambda X: np.expand_dims(X, (0, -1)), lambda X: np.squeeze(X[None, :, :1]), lambda X: X[None, :, :1].squeeze(0), lambda X: np.squeeze(X[:1, :1]),
    lambda X: np.squeeze(X[:, :1], axis=(1,)), lambda W: np.broadcast_to(W, (2, 3, 4)), lambda X, W: np.broadcast_arrays(X, W),
    lambda Z: np.atleast_1d(Z), lambda Z, V, X: np.atleast_2d(Z, V, X), lambda Z, V, X, C: np.atleast_3d(Z, V, X, C),
    lambda X: np.shape(X), lambda X: np.ndim(X), lambda X: (np.size(X), np.size(X, 1)), lambda X: (X.shape, X.ndim, X.size, X.dtype, len(X)),
]
JOIN = [
    lambda X, Y: np.concatenate((X, Y)), lambda X, Y: np.concatenate([X, Y], axis=1), lambda X, Y: np.concatenate((X, Y), axis=None),
    lambda X, F: np.concatenate((F, X), axis=-1), lambda X, I: np.concatenate((I, X)), lambda I, U: np.concatenate((I, U.T)), lambda F: np.concatenate((F, F), dtype="float64"),
    lambda X, W: np.concatenate((X, W[None]), 0), lambda X, Y: np.stack((X, Y)), lambda X, Y: np.stack([X, Y], axis=-1), lambda X, Y: np.stack((X, Y, X), 1),
    lambda V: np.vstack((V, V)), lambda X, W: np.vstack((X, W)), lambda V, W: np.hstack((V, W)), lambda X, Y: np.hstack((X, Y)), lambda X, Y: np.dstack((X, Y)),
    lambda V: np.dstack((V, V)), lambda V: np.column_stack((V, V)), lambda X, Y: np.column_stack((X, Y)), lambda X, Y: np.block([[X, Y], [Y, X]]),
    lambda V, W: np.block([V, 1.0, W]), lambda X, W: np.append(X, W), lambda X, Y: np.append(X, Y, 0), lambda V: np.append(V, 3), lambda V: np.append(V, [1, 2]),
    lambda X: np.concatenate(X), lambda V: np.stack([V[0], V[1]]), lambda V: np.concatenate([V[:0], V]), lambda C: np.unstack(C), lambda C: np.unstack(C, axis=2),
    lambda C: np.split(C, 2), lambda C: np.split(C, 2, axis=2), lambda V: np.split(V, [1, 3]), lambda V: np.array_split(V, 3), lambda V: np.array_split(V, [2, 9]),
    lambda X: np.hsplit(X, 2), lambda C: np.vsplit(C, 2), lambda C: np.dsplit(C, [1]), lambda V: np.hsplit(V, 5),
]
MOVE = [
    lambda X: np.flip(X), lambda X: np.flip(X, 1), lambda C: np.flip(C, (0, 2)), lambda X: np.fliplr(X), lambda X: np.flipud(X), lambda X: np.rot90(X),
    lambda X: np.rot90(X, 2), lambda X: np.rot90(X, -1), lambda C: np.rot90(C, 1, (1, 2)), lambda X: np.roll(X, 1), lambda X: np.roll(X, -2, axis=1),
    lambda X: np.roll(X, (1, 2), axis=(0, 1)), lambda X: np.roll(X, 9, 0), lambda X: np.roll(X, 1, (0, 1)), lambda V: np.roll(V, 0), lambda V: np.tile(V, 2),
    lambda V: np.tile(V, (2, 2)), lambda X: np.tile(X, 3), lambda X: np.tile(X, (2, 1, 1)), lambda V: np.repeat(V, 2), lambda X: np.repeat(X, 3, axis=1),
    lambda X: np.repeat(X, [1, 0, 2], axis=0), lambda X: X.repeat(2), lambda V: np.repeat(V, 0), lambda V: np.resize(V, (2, 4)), lambda V: np.resize(V, 3),
    lambda X: np.delete(X, 1, 0), lambda X: np.delete(X, [0, -1], 1), lambda V: np.delete(V, slice(1, 3)), lambda V: np.insert(V, 1, 9.0),
    lambda X: np.insert(X, 2, 7, axis=1), lambda X: np.insert(X, -1, [1, 2, 3, 4], axis=0),
    lambda X: np.diagonal(X), lambda X: np.diagonal(X, 1), lambda X: X.diagonal(-1), lambda C: np.diagonal(C, 0, 1, 2), lambda C: np.diagonal(C, -1, 2, 0),
    lambda V: np.diag(V), lambda V: np.diag(V, 2), lambda V: np.diag(V, -1), lambda X: np.diag(X), lambda X: np.diag(X, 9), lambda X: np.diagflat(X[:2, :2]),
    lambda X: np.tril(X), lambda X: np.tril(X, 1), lambda X: np.triu(X), lambda C: np.triu(C, -1), lambda V: np.tril(V), lambda I: np.triu(I, 2),
    lambda X: np.linalg.diagonal(X), lambda V: V[::-1].copy(), lambda X: X.copy(), lambda X: np.copy(X),
]
PAD = [
    lambda V: np.pad(V, 2), lambda V: np.pad(V, (1, 3), constant_values=7), lambda X: np.pad(X, 1), lambda X: np.pad(X, ((1, 0), (0, 2))),
    lambda X: np.pad(X, ((1, 2), (3, 0)), constant_values=((1, 2), (3, 4))), lambda I: np.pad(I, 1, constant_values=2.7), lambda X: np.pad(X, 1, "edge"),
    lambda X: np.pad(X, 1, "reflect"), lambda X: np.pad(X, ((2, 1), (0, 3)), "symmetric"), lambda X: np.pad(X, 2, "wrap"), lambda V: np.pad(V, 12, "reflect"),
    lambda V: np.pad(V, 12, "symmetric"), lambda V: np.pad(V, 12, "wrap"), lambda X: np.pad(X, 1, "maximum"), lambda X: np.pad(X, 2, "minimum", stat_length=2),
    lambda X: np.pad(X, 1, "mean"), lambda I: np.pad(I, 1, "mean"), lambda V: np.pad(V, 2, "reflect", reflect_type="odd"), lambda V: np.pad(V, (0, 0), "edge"),
    lambda E0: np.pad(E0, 1), lambda X: np.pad(X, {0: 1}),
]
REDUCE = [
    lambda X: np.sum(X), lambda X: X.sum(0), lambda X: X.sum(axis=-1, keepdims=True), lambda C: np.sum(C, (0, 2)), lambda C: C.sum((1,), keepdims=True), lambda B: B.sum(),
    lambda I: np.sum(I), lambda U: np.sum(U), lambda U: U.sum(dtype=np.uint8), lambda F: F.sum(), lambda F: F.sum(dtype="float64"), lambda X: np.sum(X, dtype=int),
    lambda X: np.sum(X, initial=2.0), lambda X, B: np.sum(X, where=B), lambda X, B: np.sum(X, 0, where=B, initial=1), lambda X: np.sum(X, axis=()), lambda E0: E0.sum(),
    lambda E0: E0.sum(0), lambda E0: E0.sum(1), lambda Z: Z.sum(), lambda Z: np.sum(Z, axis=0), lambda S: np.sum(S), lambda B: np.sum(B, dtype=bool), lambda X: sum(X),
    lambda X: np.prod(X), lambda I: np.prod(I, 1), lambda U: U.prod(), lambda B: np.prod(B), lambda X, B: np.prod(X, where=B), lambda E0: E0.prod(),
    lambda X: np.max(X), lambda X: X.max(0), lambda X: X.min(1, keepdims=True), lambda I: np.min(I, axis=None), lambda U: U.max(0), lambda B: np.max(B), lambda B: B.min(1),
    lambda X: np.amax(X, (0, 1)), lambda X: np.max(X, initial=9.0), lambda I: np.min(I, 0, initial=-3), lambda X, B: np.max(X, where=B, initial=-1.0),
    lambda E0: np.max(E0, axis=0, initial=1.5), lambda E0: np.max(E0, axis=1), lambda N: np.max(N), lambda N: np.min(N, 1), lambda Z: np.max(Z),
    lambda X: np.any(X), lambda X: np.all(X, 0), lambda B: B.any(1), lambda B: B.all(keepdims=True), lambda I: np.any(I, (0, 1)), lambda N: np.all(N), lambda E0: (np.any(E0), np.all(E0)),
    lambda X, B: np.any(X, where=B), lambda X, B: np.all(X > 0, 1, where=B), lambda X: np.ptp(X), lambda I: np.ptp(I, 1), lambda X: np.ptp(X, 0, keepdims=True),
    lambda X: np.argmax(X), lambda X: X.argmin(0), lambda X: np.argmax(X, 1, keepdims=True), lambda N: np.argmax(N), lambda N: np.argmin(N, 1), lambda B: np.argmax(B, 0), lambda I: I.argmin(-1),
    lambda X: np.argmax(X, keepdims=True), lambda Z: np.argmax(Z), lambda X: np.count_nonzero(X), lambda B: np.count_nonzero(B, 0), lambda I: np.count_nonzero(I, axis=1, keepdims=True),
    lambda X: np.trace(X), lambda X: X.trace(1), lambda U: U.trace(), lambda C: np.trace(C, axis1=1, axis2=2), lambda C: np.linalg.trace(C),
]
STATS = [
    lambda X: np.mean(X), lambda X: X.mean(0), lambda C: C.mean((0, -1), keepdims=True), lambda I: np.mean(I), lambda B: B.mean(1), lambda F: F.mean(), lambda F: F.mean(1),
    lambda F: np.mean(F, dtype="float64"), lambda X: np.mean(X, dtype=int), lambda X, B: np.mean(X, where=B), lambda X, B: np.mean(X, 0, where=B), lambda E0: E0.mean(), lambda E0: E0.mean(1),
    lambda Z: Z.mean(), lambda X: np.var(X), lambda X: X.var(0), lambda X: X.std(1, ddof=1), lambda I: I.var(), lambda F: F.std(), lambda F: np.var(F, 1, keepdims=True), lambda B: np.var(B),
    lambda X: np.var(X, correction=1), lambda X, B: np.var(X, where=B), lambda X: np.var(X, ddof=12), lambda X: np.std(X, ddof=20), lambda X: np.var(X, axis=()),
    lambda X: np.var(X, mean=X.mean()), lambda X: np.std(X, 0, mean=X.mean(0, keepdims=True)), lambda E0: E0.var(), lambda Z: Z.std(), lambda F: np.var(F, dtype="float64"),
    lambda X: np.average(X), lambda X: np.average(X, 0), lambda X, Y: np.average(X, weights=np.abs(Y)), lambda X, W: np.average(X, 1, weights=np.abs(W)),
    lambda X, Y: np.average(X, 1, weights=np.abs(Y), returned=True), lambda X: np.average(X, 0, returned=True), lambda C, W: np.average(C, -1, np.abs(W), keepdims=True),
    lambda N: np.nansum(N), lambda N: np.nansum(N, 0), lambda N: np.nanprod(N, 1), lambda N: np.nanmean(N), lambda N: np.nanmean(N[:, ::2], 1), lambda N: np.nanmax(N), lambda N: np.nanmin(N, 0),
    lambda N: np.nanmax(N[:, :2], 1), lambda X: np.nanvar(X), lambda N: np.nanvar(N[:, :3:2], 1), lambda X: np.nanstd(X, 0, ddof=1), lambda I: np.nanmean(I), lambda I: np.nanmax(I), lambda N: np.nancumsum(N),
    lambda X: np.cumsum(X), lambda X: X.cumsum(0), lambda I: np.cumsum(I, 1), lambda U: np.cumsum(U), lambda U: U.cumsum(0, dtype=np.uint8), lambda B: np.cumsum(B), lambda F: np.cumsum(F, 1),
    lambda X: np.cumprod(X), lambda I: I.cumprod(-1), lambda Z: np.cumsum(Z), lambda E0: np.cumsum(E0, 0), lambda V: np.cumulative_sum(V, include_initial=True), lambda X: np.cumulative_prod(X, axis=1),
    lambda B: np.cumsum(B, dtype=bool), lambda X: np.diff(X), lambda X: np.diff(X, 2, 0), lambda B: np.diff(B), lambda V: np.diff(V, prepend=0), lambda V: np.diff(V, append=[1.0, 2.0]),
    lambda V: np.ediff1d(V), lambda V: np.ediff1d(V, to_begin=1, to_end=[2, 3]), lambda V: np.gradient(V), lambda X: np.gradient(X, 0.5, axis=1),
    lambda X: np.gradient(X), lambda V: np.trapezoid(V), lambda X: np.trapezoid(X, dx=0.5), lambda X: np.cov(X), lambda X: np.corrcoef(X), lambda V: np.polyval([1.0, 2.0, 3.0], V),
]
ELEMENTWISE = [
    lambda X, Y: np.where(X > 0, X, Y), lambda X: np.where(X > 0, X, 0), lambda F: np.where(F > 0, F, 0.5), lambda I: np.where(I, 1, -1), lambda B: np.where(B, 1, 2.5), lambda X, W: np.where(W > 0, X, W),
    lambda U: np.where(U > 3, U, -1), lambda U: np.where(U > 3, 300, U), lambda U: np.where(U > 3, 2**63, U),
    lambda I, F: np.where(I > 0, I, F), lambda Z: np.where(Z > 0, Z, 1), lambda X: np.clip(X, -1, 1), lambda X: X.clip(0), lambda X: X.clip(max=0.5), lambda I: np.clip(I, -300, 3), lambda U: np.clip(U, -1, 300),
    lambda X, W: np.clip(X, -1, W), lambda F: np.clip(F, np.float64(0), 1), lambda X: np.clip(X, None, 0.5), lambda X: np.clip(X, min=-0.5), lambda N: np.clip(N, 0, 2), lambda Z: np.clip(Z, 0, 1),
    lambda X: np.round(X), lambda X: X.round(2), lambda X: np.around(X * 100, -1), lambda I: np.round(I), lambda I: np.round(I * 7, -1), lambda F: F.round(1), lambda Z: np.round(Z),
    lambda X: X.astype("float32"), lambda X: X.astype(int), lambda I: I.astype(bool), lambda X: np.astype(X, np.int16), lambda Z: Z.astype("float32"), lambda X: X.astype("float64", copy=False), lambda S: S.astype("float32"),
    lambda X: X.conj(), lambda X: np.real(X), lambda X: np.imag(X), lambda X: np.iscomplexobj(X), lambda X: np.isrealobj(X), lambda X: np.isreal(X), lambda X: np.iscomplex(X), lambda X: np.angle(X),
    lambda X, Y: np.isclose(X, Y), lambda X: np.isclose(X, X + 1e-9), lambda N: np.isclose(N, N, equal_nan=True), lambda X: np.isclose(X, 0), lambda S: np.isclose(S, 2.5), lambda I: np.isclose(I, I),
    lambda N: np.isposinf(N), lambda N: np.isneginf(N), lambda N: np.nan_to_num(N), lambda N: np.nan_to_num(N, nan=1.0, posinf=2.0, neginf=3.0), lambda I: np.nan_to_num(I), lambda Z: np.nan_to_num(Z),
    lambda X: np.fix(X), lambda X: np.sinc(X), lambda X: np.select([X > 1, X > 0], [X, X * 2], 0.0), lambda X: np.unwrap(X * 5), lambda X, Y: np.cross(X[:, :3], Y[:, :3]), lambda V: np.vander(V, 3),
    lambda X: np.result_type(X, np.float32), lambda F: np.result_type(F, 1.0), lambda I: np.can_cast(I, np.int64), lambda X, F: np.common_type(X, F),
]
CREATE = [
    lambda X: np.zeros_like(X), lambda I: np.ones_like(I), lambda F: np.full_like(F, 2.5), lambda X: np.zeros_like(X, dtype=int), lambda X: np.ones_like(X, shape=(2,)), lambda I: np.full_like(I, 7),
    lambda X, W: np.full_like(X, W), lambda Z: np.zeros_like(Z), lambda F: np.empty_like(F) * 0, lambda V, W: np.meshgrid(V, W), lambda V, W: np.meshgrid(V, W, indexing="ij", sparse=True),
    lambda S: np.linspace(0, S, 7), lambda S: np.linspace(S, 10, 5, endpoint=False), lambda V, S: np.linspace(V, S, 4), lambda S: np.linspace(0, S, 4, retstep=True), lambda S: np.linspace(1, S, 1),
]
PRODUCT = [
    lambda X, Y: X @ Y.T, lambda X, W: X @ W, lambda V: V @ V, lambda X: X[:, 0] @ X, lambda C, X: C @ X.T, lambda C: C @ C.swapaxes(1, 2), lambda C: np.matmul(C[:, None], C[None].swapaxes(-1, -2)),
    lambda I, U: I @ U, lambda B: B @ B.T, lambda X, I: I @ X.T, lambda F, X: np.matmul(F, X.T), lambda F: np.matmul(F, F.T, dtype="float64"), lambda E0: E0 @ E0.T, lambda E0: E0.T @ E0, lambda U: U @ U.T,
    lambda X, Y: np.dot(X, Y.T), lambda V: np.dot(V, V), lambda X, W: X.dot(W), lambda X: np.dot(X, 2), lambda F: np.dot(F, 2.0), lambda C, X: np.dot(C, X.T), lambda C: np.dot(C, C.transpose(0, 2, 1)), lambda Z, V: np.dot(Z, V),
    lambda X, Y: np.vdot(X, Y), lambda X, Y: np.inner(X, Y), lambda V: np.inner(V, V), lambda C, W: np.inner(C, W), lambda V, W: np.outer(V, W), lambda X, W: np.outer(X, W), lambda X, Y: np.kron(X, Y), lambda V, X: np.kron(V, X),
    lambda C, X: np.tensordot(C, X, ([1, 2], [0, 1])), lambda X, Y: np.tensordot(X, Y), lambda X, Y: np.tensordot(X, Y, 0), lambda C, X: np.tensordot(C, X, (2, 1)),
    lambda X, Y: np.einsum("ij,kj->ik", X, Y), lambda X: np.einsum("ij->ji", X), lambda X: np.einsum("ij->", X), lambda SQ: np.einsum("ii", SQ), lambda SQ: np.einsum("ii->i", SQ), lambda X, Y: np.einsum("ij,ij->i", X, Y),
    lambda X, Y: np.einsum("ij,ij", X, Y), lambda C, X: np.einsum("bij,kj->bik", C, X), lambda C: np.einsum("bij,bkj->bik", C, C), lambda C, W: np.einsum("...j,j->...", C, W), lambda V, W: np.einsum("i,j->ij", V, W),
    lambda X, Y, W: np.einsum("ij,kj,j->ik", X, Y, W), lambda X, Y: np.einsum(X, [0, 1], Y, [2, 1], [0, 2]), lambda I: np.einsum("ij,kj->ik", I, I), lambda X: np.einsum("i...->...", X), lambda X, Y: np.einsum("ij,jk", X, Y.T),
    lambda B: np.einsum("ij,kj->ik", B, B), lambda X, W: np.einsum("ij,j->j", X, W), lambda C, X: np.einsum("bij,ij->b", C, X),
    lambda X: np.linalg.norm(X), lambda V: np.linalg.norm(V), lambda X: np.linalg.norm(X, axis=1), lambda X: np.linalg.norm(X, 1), lambda X: np.linalg.norm(X, np.inf), lambda X: np.linalg.norm(X, -np.inf), lambda V: np.linalg.norm(V, 3),
    lambda X: np.linalg.norm(X, ord=np.inf, axis=0), lambda X: np.linalg.norm(X, axis=(0, 1), keepdims=True), lambda V: np.linalg.norm(V, 0), lambda I: np.linalg.norm(I), lambda X: np.linalg.norm(X, "fro"), lambda C: np.linalg.matrix_norm(C),
    lambda C: np.linalg.vector_norm(C, axis=(0, 1)), lambda C: np.linalg.norm(C), lambda X, Y: np.linalg.multi_dot([X, Y.T, X]), lambda V, SQ: np.linalg.multi_dot([V[:4], SQ, V[:4]]), lambda SQ: np.linalg.matrix_power(SQ, 5),
    lambda SQ: np.linalg.matrix_power(SQ, 0), lambda X, Y: np.vecdot(X, Y), lambda X, Y: np.linalg.vecdot(X, Y, axis=0), lambda X, Y: np.linalg.cross(X[:, :3], Y[:, :3]), lambda X, W: np.linalg.outer(W, X[0]),
]
if hasattr(np, "matvec"):
    PRODUCT += [lambda C, W: np.matvec(C, W), lambda X, C: np.vecmat(X[:2, :3], C)]
UFUNC_METHODS = [
    lambda X: np.add.reduce(X), lambda X: np.maximum.reduce(X, axis=1), lambda B: np.logical_and.reduce(B), lambda X: np.multiply.reduce(X, axis=None), lambda X: np.add.accumulate(X), lambda V, W: np.subtract.outer(V, W),
]
ONE = """sum prod max min any all argmax argmin mean var std ptp cumsum cumprod ravel transpose squeeze copy round flip roll(S,1) tile(S,2) repeat(S,2) atleast_1d
    atleast_2d broadcast_to(S,(2,)) broadcast_to(S,()) broadcast_arrays(S,S) expand_dims(S,0) reshape(S,()) reshape(S,(1,1)) pad(S,1) pad(S,1,'edge') clip(S,0,1) where(S>0,S,1)
    nan_to_num isclose(S,S) real imag isreal angle zeros_like ones_like full_like(S,3) empty_like(S).shape nansum nanmean nanmax nanstd count_nonzero(S) average diag(atleast_1d(S))
    append(S,S) stack([S,S]) hstack([S,S]) vstack([S,S]) dstack([S,S]) column_stack([S,S]) block([S,S]) concatenate([S,S],axis=None) dot(S,S) inner(S,S) vdot(S,S) outer(S,S) kron(S,S)
    tensordot(S,S,0) linalg.norm einsum('->',S) einsum(',->',S,S) fix sinc isposinf nan_to_num(S,nan=1) moveaxis(S,[],[]) ediff1d delete(S,0) insert(S,0,1) resize(S,3) meshgrid(S,S)
    linspace(0,S,3) gradient(S) rollaxis(S,0) count_nonzero(S,keepdims=True) sum(S,keepdims=True) max(S,axis=0) argmax(S,axis=0) mean(S,keepdims=True) var(S,axis=()) sum(S,axis=())
    matmul(atleast_1d(S),atleast_1d(S)) allclose(S,S).__class__.__name__[:0] astype(S,'float32') ndim shape size result_type(S,'float32') select([S>0],[S]) unwrap(atleast_1d(S))
    array(S) asarray(S) array([S,S]) array([S,1]) array([[S],[1]]) full(2,S) array(S,'float32') array(S,ndmin=2) float32(S) logspace(0,1,3)*S arange(3)*S"""
METHODS = "sum prod max min mean var std any all argmax argmin ptp cumsum ravel flatten transpose squeeze copy round clip(0,1) repeat(2) reshape(1,1) reshape(()) astype('float32') conj T"


def scalar_forms():
    """Every function and method of one number, as a 0-d array and as a NumPy scalar."""
    space = {"np": np}
    for form in ONE.split():
        text = form if "(" in form else f"{form}(S)"
        if hasattr(np, text.split("(")[0].split(".")[0]):
            text = text.replace("atleast_1d(S)", "np.atleast_1d(S)") if not text.startswith("atleast") else text
            yield text, eval(f"lambda S: np.{text}", space)
    for form in METHODS.split():
        text = f"S.{form}" if "(" in form or form == "T" else f"S.{form}()"
        if form != "ptp":
            yield text, eval(f"lambda S: {text}", space)


@pytest.mark.parametrize(("text", "f"), list(scalar_forms()), ids=lambda v: v if isinstance(v, str) else "")
@pytest.mark.parametrize("value", [Z, S, np.array(3), np.int32(3)], ids=["0d", "scalar", "0d-int", "scalar-int"])
def test_one_number(text, f, value):
    try:
        f(value)
    except Exception:
        if OLD:
            pytest.skip("for a later NumPy")
        check_error(f, value)
        return
    check(f, value, rtol=1e-15, signs=False)


GROUPS = {"shape": SHAPE, "join": JOIN, "move": MOVE, "pad": PAD, "reduce": REDUCE, "stats": STATS, "elementwise": ELEMENTWISE, "create": CREATE,
          "product": PRODUCT, "ufunc": UFUNC_METHODS}
EXACT = {"shape", "join", "move"}


def arguments(f):
    return [globals()[name] for name in f.__code__.co_varnames[:f.__code__.co_argcount]]


CASES = [pytest.param(f, group in EXACT, id=f"{group}-{k}") for group, fs in GROUPS.items() for k, f in enumerate(fs)]


@pytest.mark.parametrize(("f", "exact"), CASES)
def test_function(f, exact):
    if OLD and not numpy_has(f):
        pytest.skip("for a later NumPy")
    check(f, *arguments(f), **({} if exact else {"rtol": 4e-7 if uses_float32(f) else 1e-14, "signs": False}))


def test_fix_of_integers_is_a_new_array():
    def f(x):
        y = np.fix(x)
        y[0] = 7
        return y
    check(f, I)


def numpy_has(f):
    try:
        f(*map(clone, arguments(f)))
        return True
    except (AttributeError, TypeError, OverflowError):
        return False


def uses_float32(f):
    return any(getattr(a, "dtype", None) == np.float32 for a in arguments(f)) or "float32" in str(f.__code__.co_consts)


@pytest.mark.parametrize("dtype", FLOATS + ["int16", "bool"])
@pytest.mark.parametrize("layout", ["c", "strided", "reversed", "fortran", "unaligned"])
def test_layouts(dtype, layout):
    x = dict(layouts(sample((6, 5), dtype, 3)))[layout]

    def f(x):
        return x.sum(0), x.max(1), np.flip(x, 0), x.reshape(5, 6), x.T.ravel(), np.roll(x, 2, 1), np.pad(x, 1), x @ x.T, np.cumsum(x, 1)

    check(f, x, rtol=1e-6 if dtype == "float32" else 1e-14)


ERRORS = [
    lambda X: np.reshape(X, (5, 5)), lambda X: X.reshape(-1, -1), lambda X: np.sum(X, axis=2), lambda X: X.sum((0, 0)), lambda X: X.transpose(0), lambda X: X.transpose(0, 0), lambda X: np.swapaxes(X, 0, 5),
    lambda X: np.squeeze(X, 0), lambda X: np.broadcast_to(X, (4, 4)), lambda X, V: np.concatenate((X, V)), lambda X, Y: np.concatenate((X, Y[:, :2])), lambda Z: np.concatenate((Z, Z)), lambda X, V: np.stack((X, V)),
    lambda V: np.split(V, 2), lambda E0: np.max(E0), lambda E0: np.argmax(E0, 0), lambda E0: np.min(E0, 0), lambda X, Y: X @ Y, lambda X, Z: X @ Z, lambda X, Y: np.dot(X, Y), lambda X, V: np.einsum("ij,j", X, V),
    lambda X: np.moveaxis(X, 0, 4), lambda X: np.flip(X, 3), lambda V: np.fliplr(V), lambda X: np.pad(X, -1), lambda X: np.pad(X, 1, "nonsense"), lambda E0: np.pad(E0, 1, "edge"), lambda X, B: np.max(X, where=B),
    lambda B: np.ptp(B), lambda Z: np.diff(Z), lambda X: np.expand_dims(X, 4), lambda X: X.astype(int, casting="safe"), lambda V: np.rot90(V), lambda X: np.rollaxis(X, 0, 7),
    lambda X, V: np.average(X, weights=V), lambda V: np.delete(V, 9), lambda V: np.insert(V, 9, 1.0), lambda X, V: np.where(X > 0, X, V),
]


@pytest.mark.parametrize("f", ERRORS, ids=range(len(ERRORS)))
def test_error(f):
    check_error(f, *arguments(f))


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_covariance_of_nothing(dtype):
    check(lambda x: np.cov(x), np.zeros((0, 3), dtype))
