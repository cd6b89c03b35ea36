// Records what is logged, so that tests can check warnings.
#pragma once

#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <functional>
#include <memory>
#include <sstream>
#include <string>

namespace genesis::testing {

// Returns the lines that `work` logs.
inline std::string warnings_of(const std::function<void()>& work) {
  std::ostringstream lines;
  const auto before = spdlog::default_logger();
  const auto logger =
      std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_st>(lines));
  logger->set_pattern("%v");
  spdlog::set_default_logger(logger);
  work();
  spdlog::set_default_logger(before);
  return lines.str();
}

}  // namespace genesis::testing
