/* Captured state: what a function can read besides its arguments, as steps from objects that stay what they are (the function, its
 * module's dict, a class) to what its code finds there: a global, a closure variable, an attribute, the items of a list. pyxla/_capture.py
 * makes the list when a function is traced; an entry is used again only if each step leads to the same thing. */
#pragma once
#include <stdbool.h>
#include "py/np.h"

/* What a step says; kinds as in pyxla/_capture.py. Without `expected` (NULL): there is nothing. */
typedef enum {
    STEP_OBJECT,                  /* starts at `expected` */
    STEP_LEAF,                    /* starts at argument leaf `parent` */
    STEP_GLOBAL,                  /* the item `key` of a dict */
    STEP_CELL,                    /* the contents of a closure variable */
    STEP_ATTRIBUTE,               /* the attribute `key`, however it is found */
    STEP_OWN,                     /* the attribute `key` in the object's own __dict__ */
    STEP_DICT,                    /* the own __dict__ */
    STEP_WEAK,                    /* what a weak reference refers to */
    STEP_TYPE,                    /* the object is of class `expected` */
    STEP_CLASS,                   /* a class has this __mro__, and in it these (class, name, value), in one tuple; `key` is there for nothing */
    STEP_FUNCTION,                /* a function has this (code, defaults, kwdefaults), as far as the tuple goes */
    STEP_ITEMS,                   /* a list or dict holds the items `key` */
    STEP_PROBE,                   /* key(object) is a tuple equal to `expected` */
    STEP_CALL,                    /* object(*args, **kwargs), key: (args, kwargs or None), returns `expected` */
    STEP_ARRAY,                   /* an array has the header `key`, as array_header() gives it */
    STEP_NAMES                    /* a dict has these (name, value), in one tuple; `key` is there for nothing */
} StepKind;

typedef struct {
    StepKind kind;
    int parent;                   /* an earlier step; LEAF: the leaf */
    PyObject *key, *expected;
    uint64_t tag;                 /* CLASS, NAMES: the version of the class or dict for which it was found to hold; ATTRIBUTE: its place; 0: none */
} Step;

typedef struct { Step *at; int n; } Steps;

/* What the latest trace of a function found it can reach, while its steps hold: the next trace does not look again. walk: a
 * pyxla._capture.Walk, NULL: nothing that may be used so. */
typedef struct Watched { PyObject *walk; Steps steps; } Watched;

/* Gives it up; for the collector of cycles. */
void watched_clear(Watched *w);
int watched_traverse(const Watched *w, visitproc visit, void *arg);

/* The same immutable value: same type, equal, floats by their bits. Objects of other types only if identical. -1: an exception. */
int same_value(PyObject *a, PyObject *b);

/* Adds a list of tuples (kind, parent, key[, expected]), with parents counted from its own first one; false with an exception. */
bool steps_add(Steps *s, PyObject *list);
/* What may change of an array object besides its elements, as bytes: flags, dtype, shape, strides. NULL with an exception. */
PyObject *array_header(PyObject *array);
void steps_clear(Steps *s);
int steps_traverse(const Steps *s, visitproc visit, void *arg);
/* 1: all lead where they led, 0: one does not (its description in *why if why is not NULL, a new reference), -1: an exception. */
int steps_check(Steps *s, PyObject *const *leaves, PyObject **why);
