// What an Error says, for tests that look at it more closely than expect_error() does.
#pragma once

#include <concepts>
#include <string>

#include "schema/core/error.h"

namespace genesis::testing {

// Of the Error that `body` throws; "" when it throws none.
template <std::invocable Body>
std::string error_of(Body&& body) {
  try {
    body();
    return "";
  } catch (const Error& error) {
    return error.message();
  }
}

}  // namespace genesis::testing
