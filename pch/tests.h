// The same for tests/ (see graphs.h): what nearly all of them read, whatever library they test. JSON has a header of its own, as it
// costs files that do not read it half a second each.
#include <gtest/gtest.h>

#include <iostream>

#include "pch/sessions.h"
