// What the library tells beside its results, through spdlog's default logger: whoever uses the library chooses where that goes.
// Behind functions of our own, since spdlog's header takes each file that includes it four seconds to compile.
#pragma once

#include <fmt/core.h>

namespace genesis {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

bool is_logged(LogLevel level);

// `text` with its arguments, put together only where somebody listens. Throws nothing: who logs may be a destructor.
void log_text(LogLevel level, fmt::string_view text, fmt::format_args args);

template <class... Args>
void log_debug(fmt::format_string<Args...> text, Args&&... args) {
  log_text(LogLevel::kDebug, text, fmt::make_format_args(args...));
}
template <class... Args>
void log_info(fmt::format_string<Args...> text, Args&&... args) {
  log_text(LogLevel::kInfo, text, fmt::make_format_args(args...));
}
template <class... Args>
void log_warning(fmt::format_string<Args...> text, Args&&... args) {
  log_text(LogLevel::kWarning, text, fmt::make_format_args(args...));
}
template <class... Args>
void log_error(fmt::format_string<Args...> text, Args&&... args) {
  log_text(LogLevel::kError, text, fmt::make_format_args(args...));
}

}  // namespace genesis
