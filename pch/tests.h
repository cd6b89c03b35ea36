// Precompiled header (see graphs.h) of tests/: the headers that nearly all tests include, whichever library they test. Tests that
// read JSON use json_tests.h; in all others its header would cost half a second per file.
#include <gtest/gtest.h>

#include <iostream>

#include "pch/sessions.h"
