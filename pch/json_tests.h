// Precompiled header (see graphs.h) of the tests of tools and models, most of which read JSON.
#include <nlohmann/json.hpp>

#include "pch/tests.h"
