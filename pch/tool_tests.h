// The same for tests/tools/ (see graphs.h).
#include <nlohmann/json.hpp>

#include "pch/tests.h"
