#include "py/tree.h"
#include "py/error.h"

bool objects_push(ObjectList *l, PyObject *o)
{
    if (l->len == l->cap) {
        uint32_t cap = l->cap ? l->cap * 2 : 16;
        PyObject **at = PyMem_Realloc(l->at, cap * sizeof *at);
        if (!at) {
            PyErr_NoMemory();
            return false;
        }
        l->at = at;
        l->cap = cap;
    }
    l->at[l->len++] = Py_NewRef(o);
    return true;
}

void objects_free(ObjectList *l)
{
    for (uint32_t k = 0; k < l->len; k++)
        Py_DECREF(l->at[k]);
    PyMem_Free(l->at);
    *l = (ObjectList){0};
}

static TreeNode *node_push(Tree *t, ObjectKind kind, uint32_t n)
{
    if (t->len == t->cap) {
        uint32_t cap = t->cap ? t->cap * 2 : 16;
        TreeNode *at = PyMem_Realloc(t->at, cap * sizeof *at);
        if (!at) {
            PyErr_NoMemory();
            return NULL;
        }
        t->at = at;
        t->cap = cap;
    }
    t->at[t->len] = (TreeNode){.kind = kind, .n = n};
    return &t->at[t->len++];
}

bool tree_leaf(Tree *t, PyObject *object, ObjectList *leaves)
{
    if (!node_push(t, LEAF_STATIC, 0) || !objects_push(leaves, object))
        return false;
    t->leaves++;
    return true;
}

bool tree_open(Tree *t, ObjectKind kind, uint32_t n, PyObject *keys)
{
    TreeNode *node = node_push(t, kind, n);
    if (!node)
        return false;
    node->aux = Py_XNewRef(keys);
    return true;
}

/* ---- taking apart ---- */

static bool flatten_items(Tree *t, PyObject *const *items, Py_ssize_t n, ObjectList *leaves)
{
    for (Py_ssize_t k = 0; k < n; k++)
        if (!tree_flatten(t, items[k], leaves))
            return false;
    return true;
}

/* A list is copied first: flattening may run Python code that changes it. */
static bool flatten_list(Tree *t, PyObject *list, ObjectList *leaves)
{
    PyObject *items = PyList_AsTuple(list);
    if (!items)
        return false;
    bool ok = tree_open(t, TREE_LIST, (uint32_t)PyTuple_GET_SIZE(items), NULL)
           && flatten_items(t, &PyTuple_GET_ITEM(items, 0), PyTuple_GET_SIZE(items), leaves);
    Py_DECREF(items);
    return ok;
}

static bool flatten_dict(Tree *t, PyObject *dict, ObjectKind kind, ObjectList *leaves)
{
    PyObject *keys = PySequence_Tuple(dict);
    bool ok = keys && tree_open(t, kind, (uint32_t)PyTuple_GET_SIZE(keys), keys);
    for (Py_ssize_t k = 0; ok && k < PyTuple_GET_SIZE(keys); k++) {
        PyObject *value = PyObject_GetItem(dict, PyTuple_GET_ITEM(keys, k));
        ok = value && tree_flatten(t, value, leaves);
        Py_XDECREF(value);
    }
    Py_XDECREF(keys);
    return ok;
}

static bool flatten_named(Tree *t, PyObject *o, ObjectList *leaves)
{
    TreeNode *node = node_push(t, TREE_NAMED, (uint32_t)PyTuple_GET_SIZE(o));
    if (!node)
        return false;
    node->type = Py_NewRef(Py_TYPE(o));
    return flatten_items(t, &PyTuple_GET_ITEM(o, 0), PyTuple_GET_SIZE(o), leaves);
}

static bool flatten_dataclass(Tree *t, PyObject *o, PyObject *names, ObjectList *leaves)
{
    TreeNode *node = node_push(t, TREE_DATACLASS, (uint32_t)PyTuple_GET_SIZE(names));
    if (!node)
        return false;
    node->type = Py_NewRef(Py_TYPE(o));
    node->aux = Py_NewRef(names);
    bool ok = true;
    for (Py_ssize_t k = 0; ok && k < PyTuple_GET_SIZE(names); k++) {
        PyObject *value = PyObject_GetAttr(o, PyTuple_GET_ITEM(names, k));
        ok = value && tree_flatten(t, value, leaves);
        Py_XDECREF(value);
    }
    return ok;
}

static bool flatten_slice(Tree *t, PyObject *o, ObjectList *leaves)
{
    PySliceObject *s = (PySliceObject *)o;
    return node_push(t, TREE_SLICE, 3) && tree_flatten(t, s->start, leaves) && tree_flatten(t, s->stop, leaves)
        && tree_flatten(t, s->step, leaves);
}

static bool flatten_registered(Tree *t, PyObject *o, const TypeInfo *info, ObjectList *leaves)
{
    PyObject *children, *aux;
    if (!registered_flatten(info, o, &children, &aux))
        return false;
    TreeNode *node = node_push(t, TREE_REGISTERED, (uint32_t)PyTuple_GET_SIZE(children));
    bool ok = node != NULL;
    if (ok) {
        node->type = Py_NewRef(info->unflatten);
        node->aux = Py_NewRef(aux);
        ok = flatten_items(t, &PyTuple_GET_ITEM(children, 0), PyTuple_GET_SIZE(children), leaves);
    }
    Py_DECREF(children);
    Py_DECREF(aux);
    return ok;
}

static bool flatten_object(Tree *t, PyObject *o, const TypeInfo *info, ObjectList *leaves)
{
    switch (info->kind) {
    case TREE_NONE: return node_push(t, TREE_NONE, 0) != NULL;
    case TREE_TUPLE:
        return tree_open(t, TREE_TUPLE, (uint32_t)PyTuple_GET_SIZE(o), NULL)
            && flatten_items(t, &PyTuple_GET_ITEM(o, 0), PyTuple_GET_SIZE(o), leaves);
    case TREE_LIST: return flatten_list(t, o, leaves);
    case TREE_DICT: case TREE_ORDERED: return flatten_dict(t, o, info->kind, leaves);
    case TREE_NAMED: return flatten_named(t, o, leaves);
    case TREE_DATACLASS: return flatten_dataclass(t, o, info->fields, leaves);
    case TREE_SLICE: return flatten_slice(t, o, leaves);
    case TREE_REGISTERED: return flatten_registered(t, o, info, leaves);
    case LEAF_ARRAY: case LEAF_SCALAR: case LEAF_BOOL: case LEAF_INT: case LEAF_FLOAT: case LEAF_COMPLEX: case LEAF_STATIC:
    case LEAF_DLPACK: case LEAF_INTERFACE: case LEAF_SHAPE: case LEAF_BAD:
        break;
    }
    return tree_leaf(t, o, leaves);
}

bool tree_flatten(Tree *t, PyObject *object, ObjectList *leaves)
{
    const TypeInfo *info = type_info(Py_TYPE(object));
    if (!info || Py_EnterRecursiveCall(" while pyxla takes a tree apart"))
        return false;
    bool ok = flatten_object(t, object, info, leaves);
    Py_LeaveRecursiveCall();
    return ok;
}

/* ---- putting together ---- */

typedef struct { const TreeNode *node; PyObject *const *leaf; } Cursor;

static PyObject *build(Cursor *c);

static PyObject *build_tuple(Cursor *c, uint32_t n)
{
    PyObject *o = PyTuple_New(n);
    for (uint32_t k = 0; o && k < n; k++) {
        PyObject *item = build(c);
        if (!item)
            Py_CLEAR(o);
        else
            PyTuple_SET_ITEM(o, k, item);
    }
    return o;
}

static PyObject *build_list(Cursor *c, uint32_t n)
{
    PyObject *o = PyList_New(n);
    for (uint32_t k = 0; o && k < n; k++) {
        PyObject *item = build(c);
        if (!item)
            Py_CLEAR(o);
        else
            PyList_SET_ITEM(o, k, item);
    }
    return o;
}

static PyObject *build_dict(Cursor *c, const TreeNode *node)
{
    PyObject *o = node->kind == TREE_DICT ? PyDict_New() : PyObject_CallNoArgs((PyObject *)&PyODict_Type);
    for (uint32_t k = 0; o && k < node->n; k++) {
        PyObject *item = build(c);
        PyObject *key = PyTuple_GET_ITEM(node->aux, k);
        if (!item || (node->kind == TREE_DICT ? PyDict_SetItem(o, key, item) : PyObject_SetItem(o, key, item)) < 0)
            Py_CLEAR(o);
        Py_XDECREF(item);
    }
    return o;
}

/* Without __new__ and __init__ of the class, which may do anything: tuple.__new__(cls, items). */
static PyObject *build_named(Cursor *c, const TreeNode *node)
{
    PyObject *items = build_tuple(c, node->n);
    PyObject *args = items ? PyTuple_Pack(1, items) : NULL;
    PyObject *o = args ? PyTuple_Type.tp_new((PyTypeObject *)node->type, args, NULL) : NULL;
    Py_XDECREF(args);
    Py_XDECREF(items);
    return o;
}

/* Without __init__ and __post_init__; frozen classes too. The type's own tp_new, which knows what a base class needs. */
static PyObject *build_dataclass(Cursor *c, const TreeNode *node)
{
    PyTypeObject *type = (PyTypeObject *)node->type;
    PyObject *none = PyTuple_New(0);
    PyObject *o = none ? type->tp_new(type, none, NULL) : NULL;
    Py_XDECREF(none);
    for (uint32_t k = 0; o && k < node->n; k++) {
        PyObject *item = build(c);
        if (!item || PyObject_GenericSetAttr(o, PyTuple_GET_ITEM(node->aux, k), item) < 0)
            Py_CLEAR(o);
        Py_XDECREF(item);
    }
    return o;
}

static PyObject *build_slice(Cursor *c)
{
    PyObject *start = build(c), *stop = start ? build(c) : NULL, *step = stop ? build(c) : NULL;
    PyObject *o = step ? PySlice_New(start, stop, step) : NULL;
    Py_XDECREF(start);
    Py_XDECREF(stop);
    Py_XDECREF(step);
    return o;
}

static PyObject *build_registered(Cursor *c, const TreeNode *node)
{
    PyObject *children = build_tuple(c, node->n);
    PyObject *o = children ? PyObject_CallFunctionObjArgs(node->type, node->aux, children, NULL) : NULL;
    Py_XDECREF(children);
    return o;
}

static PyObject *build(Cursor *c)
{
    const TreeNode *node = c->node++;
    switch ((ObjectKind)node->kind) {
    case TREE_NONE: return Py_NewRef(Py_None);
    case TREE_TUPLE: return build_tuple(c, node->n);
    case TREE_LIST: return build_list(c, node->n);
    case TREE_DICT: case TREE_ORDERED: return build_dict(c, node);
    case TREE_NAMED: return build_named(c, node);
    case TREE_DATACLASS: return build_dataclass(c, node);
    case TREE_SLICE: return build_slice(c);
    case TREE_REGISTERED: return build_registered(c, node);
    case LEAF_ARRAY: case LEAF_SCALAR: case LEAF_BOOL: case LEAF_INT: case LEAF_FLOAT: case LEAF_COMPLEX: case LEAF_STATIC:
    case LEAF_DLPACK: case LEAF_INTERFACE: case LEAF_SHAPE: case LEAF_BAD:
        break;
    }
    return Py_NewRef(*c->leaf++);
}

PyObject *tree_unflatten(const Tree *t, PyObject *const *leaves)
{
    Cursor c = {t->at, leaves};
    return build(&c);
}

/* ---- the rest ---- */

static bool aux_equal(PyObject *a, PyObject *b)
{
    if (a == b)
        return true;
    int r = a && b ? PyObject_RichCompareBool(a, b, Py_EQ) : 0;
    if (r < 0)
        error_drop();
    return r > 0;
}

bool tree_equal(const Tree *a, const Tree *b)
{
    if (a->len != b->len)
        return false;
    for (uint32_t k = 0; k < a->len; k++) {
        const TreeNode *x = &a->at[k], *y = &b->at[k];
        if (x->kind != y->kind || x->n != y->n || x->type != y->type || !aux_equal(x->aux, y->aux))
            return false;
    }
    return true;
}

typedef struct { const TreeNode *node; uint32_t leaf, wanted; } PathCursor;

/* How a node's child number k is reached from it; new reference. */
static PyObject *path_step(const TreeNode *node, uint32_t k)
{
    static const char *const slice_names[] = {"start", "stop", "step"};
    switch ((ObjectKind)node->kind) {
    case TREE_DICT: case TREE_ORDERED: return PyUnicode_FromFormat("[%R]", PyTuple_GET_ITEM(node->aux, k));
    case TREE_DATACLASS: return PyUnicode_FromFormat(".%U", PyTuple_GET_ITEM(node->aux, k));
    case TREE_SLICE: return PyUnicode_FromFormat(".%s", slice_names[k]);
    case TREE_REGISTERED: return PyUnicode_FromFormat(".children[%u]", k);
    case TREE_NAMED: {
        PyObject *fields = PyObject_GetAttrString(node->type, "_fields");
        PyObject *name = fields ? PySequence_GetItem(fields, k) : NULL;
        Py_XDECREF(fields);
        if (name) {
            PyObject *s = PyUnicode_FromFormat(".%S", name);
            Py_DECREF(name);
            return s;
        }
        error_drop();
        break;
    }
    case TREE_NONE: case TREE_TUPLE: case TREE_LIST:
    case LEAF_ARRAY: case LEAF_SCALAR: case LEAF_BOOL: case LEAF_INT: case LEAF_FLOAT: case LEAF_COMPLEX: case LEAF_STATIC:
    case LEAF_DLPACK: case LEAF_INTERFACE: case LEAF_SHAPE: case LEAF_BAD:
        break;
    }
    return PyUnicode_FromFormat("[%u]", k);
}

/* Whether the wanted leaf lies in the subtree at the cursor, which is passed; its path below the node in *path then. */
static bool path_find(PathCursor *c, PyObject **path)
{
    const TreeNode *node = c->node++;
    if (node->kind < TREE_NONE) {
        if (c->leaf++ != c->wanted)
            return false;
        *path = PyUnicode_FromString("");
        return true;
    }
    for (uint32_t k = 0; k < node->n; k++) {
        PyObject *below = NULL;
        if (!path_find(c, &below))
            continue;
        PyObject *step = path_step(node, k);
        *path = step && below ? PyUnicode_Concat(step, below) : NULL;
        Py_XDECREF(step);
        Py_XDECREF(below);
        return true;
    }
    return false;
}

PyObject *tree_path(const Tree *t, uint32_t leaf, uint32_t *child)
{
    PathCursor c = {t->at + 1, 0, leaf};
    PyObject *path = NULL;
    for (*child = 0; t->len && *child < t->at[0].n; ++*child)
        if (path_find(&c, &path))
            return path;
    *child = 0;
    return PyUnicode_FromString("");
}

void tree_free(Tree *t)
{
    for (uint32_t k = 0; k < t->len; k++) {
        Py_XDECREF(t->at[k].type);
        Py_XDECREF(t->at[k].aux);
    }
    PyMem_Free(t->at);
    *t = (Tree){0};
}

int tree_traverse(const Tree *t, visitproc visit, void *arg)
{
    for (uint32_t k = 0; k < t->len; k++) {
        Py_VISIT(t->at[k].type);
        Py_VISIT(t->at[k].aux);
    }
    return 0;
}
