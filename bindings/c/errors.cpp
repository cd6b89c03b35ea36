// Errors, texts and the log of the C interface.
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <mutex>
#include <new>
#include <vector>

#include "bindings/c/handles.h"
#include "schema/version.h"

struct gn_error {
  int32_t code = GN_INTERNAL;
  std::string text, entry, node, input;
};

namespace genesis::c {
namespace {

// Returned when there is no memory for another error. It is never freed.
gn_error out_of_memory{GN_OUT_OF_MEMORY, "out of memory", "", "", ""};

// Returns NAME of the first "<word> 'NAME'" in a message.
std::string quoted_after(const std::string& text, const std::string& word) {
  const size_t at = text.find(word + " '");
  if (at == std::string::npos) return "";
  const size_t begin = at + word.size() + 2, end = text.find('\'', begin);
  return end == std::string::npos ? "" : text.substr(begin, end - begin);
}

gn_error* made_error(int32_t code, const char* function, const std::string& text, const char* entry) {
  auto error = std::make_unique<gn_error>();
  error->code = code;
  error->text = code == GN_ERROR ? text : std::string(function) + ": " + text;
  error->entry = quoted_after(text, "entry point");
  if (error->entry.empty()) error->entry = entry;
  error->node = quoted_after(text, "node");
  error->input = quoted_after(text, "input");
  return error.release();
}

// Passes messages on to a program's function.
class CallbackSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  CallbackSink(gn_on_log on_log, void* user) : on_log_(on_log), user_(user) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    const std::string text(message.payload.data(), message.payload.size());
    const int32_t level = message.level <= spdlog::level::debug  ? GN_LOG_DEBUG
                          : message.level == spdlog::level::info ? GN_LOG_INFO
                          : message.level == spdlog::level::warn ? GN_LOG_WARNING
                                                                 : GN_LOG_ERROR;
    on_log_(level, text.c_str(), user_);
  }
  void flush_() override {}

  gn_on_log on_log_;
  void* user_;
};

}  // namespace

gn_error* current_error(const char* function, const char* entry) noexcept {
  try {
    try {
      throw;
    } catch (const BadArgument& error) {
      return made_error(GN_BAD_ARGUMENT, function, error.message(), entry);
    } catch (const Error& error) {
      return made_error(GN_ERROR, function, error.message(), entry);
    } catch (const std::bad_alloc&) {
      return made_error(GN_OUT_OF_MEMORY, function, "out of memory", entry);
    } catch (const std::exception& error) {
      return made_error(GN_INTERNAL, function, error.what(), entry);
    } catch (...) {
      return made_error(GN_INTERNAL, function, "an exception of an unknown type", entry);
    }
  } catch (...) {
    return &out_of_memory;
  }
}

char* new_text(const std::string& text) {
  auto* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (!copy) throw std::bad_alloc();
  std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

}  // namespace genesis::c

using namespace genesis;
using namespace genesis::c;

extern "C" {

const char* gn_version(void) { return kVersion.data(); }

void gn_text_free(char* text) { std::free(text); }

gn_error* gn_set_log(gn_on_log on_log, void* user, int32_t level) {
  return guarded("gn_set_log", [&] {
    constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info,
                                                     spdlog::level::warn, spdlog::level::err};
    if (level < GN_LOG_DEBUG || level > GN_LOG_ERROR)
      throw BadArgument(fmt::format("level is {}, expected GN_LOG_DEBUG to GN_LOG_ERROR", level));
    std::shared_ptr<spdlog::sinks::sink> sink;
    if (on_log)
      sink = std::make_shared<CallbackSink>(on_log, user);
    else
      sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
    auto logger = std::make_shared<spdlog::logger>("", std::move(sink));
    logger->set_level(kLevels[level]);
    // Other threads may be writing to the earlier loggers, which spdlog does not count: they stay for the rest of the process.
    static std::mutex mutex;
    static auto& earlier = *new std::vector<std::shared_ptr<spdlog::logger>>();
    const std::lock_guard lock(mutex);
    earlier.push_back(spdlog::default_logger());
    spdlog::set_default_logger(std::move(logger));
  });
}

int32_t gn_error_code(const gn_error* error) { return error ? error->code : GN_OK; }
const char* gn_error_text(const gn_error* error) { return error ? error->text.c_str() : ""; }
const char* gn_error_entry(const gn_error* error) { return error ? error->entry.c_str() : ""; }
const char* gn_error_node(const gn_error* error) { return error ? error->node.c_str() : ""; }
const char* gn_error_input(const gn_error* error) { return error ? error->input.c_str() : ""; }
void gn_error_free(gn_error* error) {
  if (error != &out_of_memory) delete error;
}

}  // extern "C"
