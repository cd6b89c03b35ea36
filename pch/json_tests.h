// The same for tests of tools and models (see graphs.h), most of which read JSON.
#include <nlohmann/json.hpp>

#include "pch/tests.h"
