// Log messages of the library. They go to spdlog's default logger, so that a program that uses the library can redirect them.
// These functions hide spdlog's header, which costs each file that includes it four seconds to compile.
#pragma once

#include <fmt/core.h>

namespace genesis {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

bool is_logged(LogLevel level);

// Logs `text` with its arguments; formats it only if the level is enabled. Throws nothing, because a destructor may call it.
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
