// The same for tests/ (see graphs.h): what nearly all of them read, whatever library they test.
#include <gtest/gtest.h>

#include <fstream>
#include <iostream>

#include "pch/graphs.h"
