// The same for executor/ and models/ (see graphs.h). JSON stays out: files that do not read it would take half a second longer.
#include <fstream>

#include "executor/session.h"
#include "passes/pipelines.h"
#include "pch/graphs.h"
