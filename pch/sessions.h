// Precompiled header (see graphs.h) of executor/ and models/. It leaves out JSON, which would cost half a second in each file
// that does not read it.
#include <fstream>

#include "executor/session.h"
#include "passes/pipelines.h"
#include "pch/graphs.h"
