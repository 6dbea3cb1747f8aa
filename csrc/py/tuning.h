/* The process's table of knobs (opt/tune.h), and what pyxla/_tune.py needs to fill it. */
#pragma once
#include "opt/tune.h"
#include "py/np.h"

/* The table that plans look into. */
const Tuning *tuning_table(void);
bool tuning_module_init(PyObject *module);
