"""What numpys_judge.py cannot reach by replacing functions: NumPy's test modules, rewritten as they are imported, so that each operator, index, store,
method and call of a name that may meet an array or a ufunc goes through the judge.

`a + b` becomes `__judge__.operate(LINE, "add", a, b)`, `a[i] = v` becomes `__judge__.operate(LINE, "setitem", a, i, v)`, `a.m(x)` becomes
`__judge__.method(LINE, a, "m", x)`. The judge looks at what it was given, and does the plain thing with what is no array."""
import ast
import importlib.abc
import importlib.machinery
import re
import sys

BINARY = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv", ast.Mod: "mod", ast.Pow: "pow", ast.MatMult: "matmul",
          ast.LShift: "lshift", ast.RShift: "rshift", ast.BitAnd: "and_", ast.BitOr: "or_", ast.BitXor: "xor"}
COMPARE = {ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne"}
UNARY = {ast.USub: "neg", ast.UAdd: "pos", ast.Invert: "invert"}
ATTRIBUTES = {"T", "mT", "real", "imag"}
FRAMES = {"super", "locals", "globals", "eval", "exec", "vars", "dir"}       # they look at their caller


def constant(value):
    return ast.Constant(value)


class Rewriter(ast.NodeTransformer):
    def judge(self, node, what, *args, keywords=()):
        f = ast.Attribute(ast.Name("__judge__", ast.Load()), what, ast.Load())
        call = ast.Call(f, [constant(node.lineno), *args], list(keywords))
        return ast.fix_missing_locations(ast.copy_location(call, node))

    def visit_Call(self, node):
        f = node.func
        node.args = [self.visit(a) for a in node.args]
        node.keywords = [self.visit(k) for k in node.keywords]
        if isinstance(f, ast.Attribute) and (not f.attr.startswith("__") or f.attr.endswith("__")):
            return self.judge(node, "method", self.visit(f.value), constant(f.attr), *node.args, keywords=node.keywords)
        if isinstance(f, ast.Name) and f.id not in FRAMES:
            return self.judge(node, "call", f, *node.args, keywords=node.keywords)
        node.func = self.visit(f)
        return node

    def visit_BinOp(self, node):
        self.generic_visit(node)
        return self.judge(node, "operate", constant(BINARY[type(node.op)]), node.left, node.right)

    def visit_UnaryOp(self, node):
        self.generic_visit(node)
        if type(node.op) not in UNARY or isinstance(node.operand, ast.Constant):
            return node
        return self.judge(node, "operate", constant(UNARY[type(node.op)]), node.operand)

    def visit_Compare(self, node):
        self.generic_visit(node)
        if len(node.ops) != 1 or type(node.ops[0]) not in COMPARE:
            return node
        return self.judge(node, "operate", constant(COMPARE[type(node.ops[0])]), node.left, node.comparators[0])

    def visit_Attribute(self, node):
        self.generic_visit(node)
        return self.judge(node, "attribute", node.value, constant(node.attr)) if node.attr in ATTRIBUTES and isinstance(node.ctx, ast.Load) else node

    def visit_Slice(self, node):
        self.generic_visit(node)
        parts = [p or constant(None) for p in (node.lower, node.upper, node.step)]
        return ast.fix_missing_locations(ast.copy_location(ast.Call(ast.Name("slice", ast.Load()), parts, []), node))

    def visit_Subscript(self, node):
        plain = not isinstance(node.ctx, ast.Load)
        if plain:
            node.value = self.visit(node.value)
            return node
        self.generic_visit(node)
        return self.judge(node, "operate", constant("getitem"), node.value, node.slice)

    def visit_AnnAssign(self, node):
        return node

    def visit_Assign(self, node):
        if len(node.targets) != 1 or not isinstance(node.targets[0], ast.Subscript):
            return self.generic_visit(node)
        t = node.targets[0]
        stored = self.judge(node, "operate", constant("setitem"), self.visit(t.value), self.visit(t.slice), self.visit(node.value))
        return ast.copy_location(ast.Expr(stored), node)

    def visit_AugAssign(self, node):
        t, name = node.target, constant("i" + BINARY[type(node.op)].rstrip("_"))
        if isinstance(t, ast.Name):
            value = self.judge(node, "operate", name, ast.Name(t.id, ast.Load()), self.visit(node.value))
            return ast.fix_missing_locations(ast.copy_location(ast.Assign([t], value), node))
        if isinstance(t, ast.Subscript):
            stored = self.judge(node, "update", name, self.visit(t.value), self.visit(t.slice), self.visit(node.value))
            return ast.copy_location(ast.Expr(stored), node)
        node.value = self.visit(node.value)
        return node


class Loader(importlib.machinery.SourceFileLoader):
    """Rewritten modules leave no bytecode behind."""

    def get_code(self, fullname):
        path = self.get_filename(fullname)
        return compile(ast.fix_missing_locations(Rewriter().visit(ast.parse(self.get_data(path)))), path, "exec", dont_inherit=True)

    def exec_module(self, module):
        module.__judge__ = Finder.judge
        super().exec_module(module)


class Finder(importlib.abc.MetaPathFinder):
    judge = None

    @staticmethod
    def find_spec(name, path=None, target=None):
        spec = importlib.machinery.PathFinder.find_spec(name, path) if re.search(r"(^|\.)test_\w+$", name) else None
        if spec and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = Loader(spec.loader.name, spec.loader.path)
        return spec


def install(judge):
    """From now on modules named test_* hand their operations to `judge`."""
    Finder.judge = judge
    sys.meta_path.insert(0, Finder)
