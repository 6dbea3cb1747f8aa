/* The frames of those who call the traced function. What a function learned of them would stay as it was in the trace, so it is refused where user
 * code gets hold of one, by sys._getframe() or by f_back; frames of the function itself and of what it calls are its own. In CPython 3.10 f_back
 * is no getter, and is left alone. */
#include "py/state.h"
#include "py/tracer.h"
#include <frameobject.h>

typedef PyObject *(*Fast)(PyObject *, PyObject *const *, Py_ssize_t);
static PyMethodDef **getframe_at, *getframe_original, getframe_ours;
static PyGetSetDescrObject *back;
static PyGetSetDef *back_original, back_ours;

/* Whether a frame is none of those from the running one up to the one that began the trace; maybe with an exception, for want of memory. */
static bool of_caller(Trace *t, PyObject *frame)
{
    PyFrameObject *f = (PyFrameObject *)Py_XNewRef((PyObject *)PyEval_GetFrame());
    while (f && (PyObject *)f != frame && (PyObject *)f != t->priv->began) {
        PyFrameObject *outer = PyFrame_GetBack(f);
        Py_DECREF(f);
        f = outer;
    }
    bool outside = f && (PyObject *)f == t->priv->began;
    Py_XDECREF(f);
    return outside;
}

/* A frame that user code may have; NULL with an exception. Takes the reference over. */
static PyObject *checked(PyObject *frame)
{
    Trace *t = frame && frame != Py_None ? trace_current() : NULL;
    if (!t || !t->priv->effects || !t->priv->began)
        return frame;
    bool outside = of_caller(t, frame);
    if (PyErr_Occurred())
        Py_CLEAR(frame);
    if (!frame || !outside)
        return frame;
    PyObject *f = state_import(&state.frame_read, "pyxla._effects", "frame_read"), *r = f ? PyObject_CallOneArg(f, t->priv->effects) : NULL;
    if (!r)
        Py_CLEAR(frame);
    Py_XDECREF(r);
    return frame;
}

static PyObject *own_getframe(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    return checked(((Fast)(void (*)(void))getframe_original->ml_meth)(self, args, n));
}

static PyObject *own_back(PyObject *frame, void *closure) { return checked(back_original->get(frame, closure)); }

void frames_init(void)
{
    PyObject *f = PySys_GetObject("_getframe"), *descr = PyObject_GetAttrString((PyObject *)&PyFrame_Type, "f_back");
    if (f && PyCFunction_CheckExact(f) && ((PyCFunctionObject *)f)->m_ml->ml_flags == METH_FASTCALL) {
        getframe_at = &((PyCFunctionObject *)Py_NewRef(f))->m_ml;
        getframe_original = *getframe_at;
        getframe_ours = **getframe_at;
        getframe_ours.ml_meth = (PyCFunction)(void (*)(void))own_getframe;
    }
    if (descr && Py_IS_TYPE(descr, &PyGetSetDescr_Type)) {
        back = (PyGetSetDescrObject *)descr;
        back_original = back->d_getset;
        back_ours = *back_original;
        back_ours.get = own_back;
    }
    Py_XDECREF(descr);            /* the type keeps it */
    PyErr_Clear();
}

void frames_exchange(bool ours)
{
    if (getframe_at)
        *getframe_at = ours ? &getframe_ours : getframe_original;
    if (back)
        back->d_getset = ours ? &back_ours : back_original;
}
