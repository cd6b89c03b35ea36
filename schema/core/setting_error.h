// The error of a setting that a job cannot use: one out of range, one that needs another, or one that does nothing in this job,
// whose author expects an effect. Tools report it as wrong usage.
#pragma once

#include "schema/core/error.h"

namespace genesis {

class SettingError : public Error {
 public:
  using Error::Error;
};

template <class... Args>
[[noreturn]] void fail_setting(fmt::format_string<Args...> format, Args&&... args) {
  throw SettingError(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace genesis
