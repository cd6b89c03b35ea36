// The same for executor/ and models/ (see graphs.h).
#include <fstream>
#include <nlohmann/json.hpp>

#include "executor/session.h"
#include "passes/pipelines.h"
#include "pch/graphs.h"
