/* Trees: how arguments and results are taken apart into leaves and put together again.
 *
 * Nodes are None, tuples, lists, dicts (in their own order), named tuples, dataclasses, slices and registered classes; everything
 * else is a leaf. What an object is depends on its type alone: type_info() answers from a table that is filled on first sight. */
#pragma once
#include "py/np.h"
#include "ir/ir.h"

typedef enum {
    LEAF_ARRAY, LEAF_SCALAR, LEAF_BOOL, LEAF_INT, LEAF_FLOAT, LEAF_COMPLEX, LEAF_STATIC,
    LEAF_DLPACK, LEAF_INTERFACE,      /* objects that lend their memory: read as an ndarray */
    LEAF_SHAPE,                       /* ShapeDtype: an array of which only this is known */
    LEAF_BAD,                         /* never an argument; info->why */
    TREE_NONE, TREE_TUPLE, TREE_LIST, TREE_DICT, TREE_ORDERED, TREE_NAMED, TREE_DATACLASS, TREE_SLICE, TREE_REGISTERED,
} ObjectKind;

typedef struct {
    ObjectKind kind;
    Dtype dtype;                      /* SCALAR */
    PyObject *fields;                 /* DATACLASS: tuple of names */
    PyObject *flatten, *unflatten;    /* REGISTERED */
    const char *why;                  /* BAD */
    bool own;                         /* INTERFACE: only objects that themselves have the attribute; others are STATIC */
} TypeInfo;

/* What objects of a type are. NULL with an exception. */
const TypeInfo *type_info(PyTypeObject *type);
/* Whether an object has an __array_interface__ of its own, not its class's. */
bool object_lends(PyObject *o);
/* Takes note that objects of this type, STATIC until now, may lend their memory so. */
void type_lends(PyTypeObject *type);
/* dtype of an array's elements in native order; DT_COUNT if there is none (no exception). */
Dtype array_dtype(PyArrayObject *a);
bool tree_module_init(void);
/* register_tree(cls, flatten, unflatten): the module's function. */
PyObject *tree_register(PyObject *module, PyObject *const *args, Py_ssize_t nargs);

/* Children and aux of an object of a registered class (new references); false with an exception. */
bool registered_flatten(const TypeInfo *info, PyObject *object, PyObject **children, PyObject **aux);

typedef struct {
    uint8_t kind;                     /* an ObjectKind; leaves are LEAF_STATIC */
    uint32_t n;                       /* children */
    PyObject *type;                   /* NAMED, DATACLASS: the class; REGISTERED: unflatten */
    PyObject *aux;                    /* DICT, ORDERED: tuple of keys; DATACLASS: tuple of names; REGISTERED: aux */
} TreeNode;

typedef struct { TreeNode *at; uint32_t len, cap, leaves; } Tree;      /* nodes in pre-order; zeroed is empty */
typedef struct { PyObject **at; uint32_t len, cap; } ObjectList;       /* owns its references; zeroed is empty */

/* Appends an object's nodes and leaves; false with an exception. */
bool tree_flatten(Tree *t, PyObject *object, ObjectList *leaves);
/* Appends one object as a leaf whatever it is. */
bool tree_leaf(Tree *t, PyObject *object, ObjectList *leaves);
/* Appends a node (kind TUPLE or DICT, whose aux is the keys) for n children that the caller appends next. */
bool tree_open(Tree *t, ObjectKind kind, uint32_t n, PyObject *keys);
/* The object of a tree with other leaves; new reference. */
PyObject *tree_unflatten(const Tree *t, PyObject *const *leaves);
/* Same nodes, types, keys. */
bool tree_equal(const Tree *a, const Tree *b);
/* Where leaf number k is below the root, as source text after the name of the root's child: child number in *child, "['w'][0]"
 * returned (new reference). */
PyObject *tree_path(const Tree *t, uint32_t leaf, uint32_t *child);
void tree_free(Tree *t);
int tree_traverse(const Tree *t, visitproc visit, void *arg);
bool objects_push(ObjectList *l, PyObject *o);    /* takes its own reference */
void objects_free(ObjectList *l);
