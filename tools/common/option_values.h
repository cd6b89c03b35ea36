// Values of options whose meaning does not depend on what files hold: one that means nothing is wrong usage (exit code 2).
#pragma once

#include <set>
#include <string>

#include "tools/common/command.h"
#include "tools/common/usage.h"

namespace genesis::tools {

// The result of `read`, an Error of which becomes a UsageError. `option` is how the value was given, for the message: "--cast fp16".
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

// Adds an option that names a device. A name that none can have is wrong usage; whether the device is there, who opens it finds out.
Option* add_device(Command& app, const std::string& name, std::string& device, const std::string& what);
void check_device(const std::string& option, const std::string& device);
// Throws UsageError where one of the names is no pass, step of planning or kernel of the device. With "auto" nothing is checked.
void check_disabled(const std::set<std::string>& names, const std::string& device);

}  // namespace genesis::tools
