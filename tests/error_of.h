// Gives tests the message of an Error, for checks beyond those of expect_error().
#pragma once

#include <concepts>
#include <string>

#include "schema/core/error.h"

namespace genesis::testing {

// Returns the message of the Error that `body` throws; "" if it throws none.
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
