// Checks values of options that can be checked without reading a file. A bad value is wrong usage (exit code 2).
#pragma once

#include <set>
#include <string>

#include "tools/common/command.h"
#include "tools/common/usage.h"

namespace genesis::tools {

// Returns the result of `read`, and turns its Error into a UsageError. `option` is the option with its value, for the
// message: "--cast fp16".
template <class Read>
auto read_value(const std::string& option, Read&& read) {
  try {
    return read();
  } catch (const UsageError&) {
    throw;
  } catch (const Error& error) {
    throw UsageError(option + ": " + error.message());
  }
}

// Adds an option that names a device. A name that no device can have is wrong usage; a missing device is found when
// it is opened.
Option* add_device(Command& app, const std::string& name, std::string& device, const std::string& what);
void check_device(const std::string& option, const std::string& device);
// Throws UsageError if one of the names is no pass, planning step or kernel of the device. With "auto" nothing is
// checked.
void check_disabled(const std::set<std::string>& names, const std::string& device);

}  // namespace genesis::tools
