#include "executor/memory_report.h"

#include "schema/core/error.h"
#include "schema/graph/memory_text.h"

namespace genesis {

void fail_too_little_memory(const std::string& device, const MemoryNeed& need, int64_t free_bytes,
                            const Plan& plan) {
  fail(
      "{} has too little memory: {} are needed (arena {}, states {}, constants {}), {} are free; smaller "
      "batches, --memory-budget (recompute instead of keep) or --cast bf16 would help; the largest tensors "
      "at the peak:{}",
      device, human_bytes(need.total()), human_bytes(need.arena), human_bytes(need.states),
      human_bytes(need.constants), human_bytes(free_bytes), memory_lines(plan.peak));
}

std::string sizes_text(const Bindings& bindings) {
  std::string text;
  for (const auto& [symbol, size] : bindings)
    text += fmt::format("{} {}={}", text.empty() ? " with" : ",", symbol, size);
  return text;
}

}  // namespace genesis
